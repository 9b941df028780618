"""From pydantic's complaints to messages that name the Pulumi key."""

import difflib
from collections.abc import Callable, Iterable
from typing import Any

from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from infra.catalog import Limit

Location = tuple[int | str, ...]

_PLAIN = {
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "missing": "is required",
}
_MAPPINGS = ("model_type", "model_attributes_type", "dict_type")
_LISTS = ("tuple_type", "list_type")


def fault(message: str, *at: int | str) -> PydanticCustomError:
    """A refusal for a validator to raise; `at` leads from the validated object to the key at fault."""
    # pydantic formats the template with the context: as a value the message may hold any braces.
    return PydanticCustomError("cfrag", "{message}", {"message": message, "at": at})


def within(limit: Limit, what: str, least: int = 1) -> AfterValidator:
    """A whole number from `least` to the platform's limit."""

    def check(value: int) -> int:
        if value > limit.value:
            raise fault(limit.refusal(what, value))
        if value < least:
            raise fault(f"{what} is {value}; at least {least} is needed")
        return value

    return AfterValidator(check)


def nearest(word: str, known: Iterable[str]) -> str:
    """What to tell someone who wrote a word that isn't known."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    if not close:
        # A short name of something long ("bge-m3" for "@cf/baai/bge-m3") is far by edit distance.
        close = [name for name in names if len(word) > 2 and word.lower() in name.lower()][:1]
    listed = ", ".join(names)
    return f"did you mean {close[0]}? Known: {listed}" if close else f"known: {listed}"


def problems(error: ValidationError, model: type[BaseModel], key: str) -> list[tuple[str, str]]:
    """One `(Pulumi key, message)` per fault, the input's values left out unless they help."""
    return [_problem(detail, model, key) for detail in error.errors(include_url=False)]


def _problem(detail: ErrorDetails, model: type[BaseModel], key: str) -> tuple[str, str]:
    kind, context = detail["type"], detail.get("ctx", {})
    location: Location = (*detail["loc"], *context.get("at", ()))
    return pulumi_key(key, location), _message(kind, detail, context, model)


def _message(kind: str, detail: ErrorDetails, context: dict[str, Any], model: type[BaseModel]) -> str:
    found = detail["input"]
    if kind == "extra_forbidden":
        *parents, last = detail["loc"]
        return f"unknown key; {nearest(str(last), _keys_at(model, parents))}"
    if kind == "cfrag":
        return str(context["message"])
    if kind in _PLAIN:
        return _PLAIN[kind] + ("" if kind == "missing" else f", not {_shown(found)}")
    if kind in _MAPPINGS:
        return f"must be a mapping of keys to values, not {_shown(found)}"
    if kind in _LISTS:
        return f"must be a list, not {_shown(found)}"
    if kind == "literal_error":
        return f"must be {context['expected']}, not {_shown(found)}"
    return f"{detail['msg'][0].lower()}{detail['msg'][1:]}, not {_shown(found)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def pulumi_key(key: str, location: Iterable[int | str]) -> str:
    """`cf-rag:rag` and `("cors", "origins", 0)` make `cf-rag:rag.cors.origins[0]`."""
    for part in location:
        key += f"[{part}]" if isinstance(part, int) else f".{part}"
    return key


def _keys_at(model: type[BaseModel], parents: Iterable[int | str]) -> list[str]:
    """The keys that the config knows at a place inside `model`."""
    current = model
    for part in parents:
        current = _child(current, str(part)) or current
    return [field.alias or name for name, field in current.model_fields.items()]


def _child(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    for name, field in model.model_fields.items():
        if key == (field.alias or name):
            return _find_model(field.annotation)
    return None


def _find_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner: Callable[[Any], type[BaseModel] | None] = _find_model
    return next((found for arg in getattr(annotation, "__args__", ()) if (found := inner(arg))), None)
