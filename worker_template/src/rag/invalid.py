"""Validation errors as one problem that names the field, the value, the limit and what was meant."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails

from rag.errors import Problem
from rag.settings import FIELDS

# Values that are never repeated, neither in answers nor in logs: document text and questions.
_PRIVATE = frozenset({"body", "title", "query"})
_MOST_ERRORS = 10
# Where pydantic speaks of Python instead of JSON.
_MESSAGES = {
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be an array",
    "bool_type": "must be true or false",
}
_LIMITS = ("limit", "ge", "le", "gt", "lt", "min_length", "max_length")


def problem_from(errors: Iterable[Any], *, skip: Sequence[str] = ()) -> Problem:
    """The 422 for pydantic's `errors`; a location's first part is not shown if it is in `skip`."""
    shown = [_describe(error, skip) for error in errors]
    field, detail, first = shown[0]
    context = first.get("ctx") or {}
    limit = next((context[key] for key in _LIMITS if key in context), None)
    more = [{"field": name, "detail": text} for name, text, _ in shown[:_MOST_ERRORS]]
    extra = {"errors": more} if len(shown) > 1 else {}
    return Problem(
        "invalid-value", detail, field=field or None, limit=limit, actual=_actual(first, context), extra=extra
    )


def _describe(error: ErrorDetails, skip: Sequence[str]) -> tuple[str, str, ErrorDetails]:
    location = list(error["loc"])
    if location and location[0] in skip:
        location.pop(0)
    field = path(location)
    return field, _sentence(error, location, field), error


def path(location: Sequence[str | int]) -> str:
    """`("documents", 3, "metadata", "year")` as `documents[3].metadata.year`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{_short(part)}" if text else _short(part)
    return text


def _sentence(error: ErrorDetails, location: list[str | int], field: str) -> str:
    if error["type"] == "extra_forbidden":
        return _unknown(location, field)
    if error["type"] == "missing":
        return f"{field or 'the body'} is missing"
    message = _MESSAGES.get(error["type"]) or error["msg"][:1].lower() + error["msg"][1:]
    value = _shown_value(error, location)
    return f"{field or 'the body'}{value}: {message}"


def _unknown(location: list[str | int], field: str) -> str:
    parent, name = location[-2] if len(location) > 1 else None, str(location[-1])
    filterable = [each for each, declared in FIELDS.items() if declared["filterable"]]
    if parent == "filter" and name in FIELDS:
        return f"{field}: this metadata field is not filterable; filterable are {_list(filterable)}"
    if parent == "filter":
        return f"{field}: no such metadata field; filterable: {_list(filterable)}{_meant(name, filterable)}"
    if parent == "metadata":
        return f"{field}: no such metadata field; declared are {_list(FIELDS)}{_meant(name, FIELDS)}"
    return f"{field}: unknown key"


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _meant(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _shown_value(error: ErrorDetails, location: list[str | int]) -> str:
    value = error.get("input")
    if _PRIVATE.intersection(map(str, location)) or isinstance(value, dict | list | bytes):
        return ""
    return f" = {_short(repr(value))}"


def _actual(error: ErrorDetails, context: dict[str, Any]) -> Any:
    for key in ("actual", "actual_length"):
        if key in context:
            return context[key]
    value = error.get("input")
    if "ctx" in error and isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return None


def _short(text: str) -> str:
    """At most 80 characters, printable in every encoding."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= 80 else clean[:79] + "…"
