"""Values that documents and filters are made of: ids, tags, text, numbers, filter operators."""

import math
import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from rag.settings import ID_BYTES, INDEXED_STRING_BYTES

# Vectorize keeps numbers as float64, which is exact for integers up to here.
_MAX_INTEGER = 2**53

# What an operator calls a key.
MAX_LABEL = 100

RANGE_LOWER = ("$gt", "$gte")
RANGE_UPPER = ("$lt", "$lte")


def refuse(message: str, *, limit: Any = None, actual: Any = None) -> PydanticCustomError:
    """A validation error with a message of our own and the numbers behind it."""
    context = {key: value for key, value in (("limit", limit), ("actual", actual)) if value is not None}
    return PydanticCustomError("refused", "{message}", {"message": message, **context})


def utf8_length(value: str) -> int:
    """Bytes of `value` in UTF-8; refuses lone surrogates, which no store here can keep."""
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        raise refuse("holds half of a surrogate pair, which is not text") from None


def _text(value: str) -> str:
    utf8_length(value)
    return value


def _filled(value: str) -> str:
    if not value.strip():
        raise refuse("must hold some text")
    return _text(value)


def _short(value: str, limit: int) -> str:
    size = utf8_length(value)
    if not value:
        raise refuse("must not be empty", limit=limit, actual=0)
    if size > limit:
        raise refuse(f"has {size} UTF-8 bytes; at most {limit} are accepted", limit=limit, actual=size)
    return value


def _no_control(value: str) -> str:
    if any(unicodedata.category(char) == "Cc" for char in value):
        raise refuse("must not hold control characters")
    return value


def document_id(value: str) -> str:
    """A document's id: 1 to 64 UTF-8 bytes (Vectorize's limit), NFC, addressable in a URL path."""
    _no_control(_short(value, ID_BYTES))
    if not unicodedata.is_normalized("NFC", value):
        raise refuse("must be in Unicode normal form NFC")
    if value in (".", ".."):
        raise refuse('must not be "." or "..", which no URL path can hold')
    return value


def _indexed(value: str) -> str:
    # A string index of Vectorize sees no more than its first 64 bytes: longer values would match each other.
    size = utf8_length(value)
    if size > INDEXED_STRING_BYTES:
        message = f"has {size} UTF-8 bytes; a filterable string has at most {INDEXED_STRING_BYTES}"
        raise refuse(message, limit=INDEXED_STRING_BYTES, actual=size)
    return value


def _tag(value: str) -> str:
    return _no_control(_short(value, INDEXED_STRING_BYTES))


def _label(value: str) -> str:
    if not value.strip() or len(value) > MAX_LABEL:
        raise refuse(f"must have 1 to {MAX_LABEL} characters", limit=MAX_LABEL, actual=len(value))
    return _no_control(_text(value))


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse("must be a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise refuse("must be a finite number")
    if isinstance(value, int) and abs(value) > _MAX_INTEGER:
        raise refuse(f"must be an integer within ±{_MAX_INTEGER}", limit=_MAX_INTEGER, actual=str(value)[:32])
    return value


_STRING_SCHEMA = WithJsonSchema(
    {"type": "string", "minLength": 1, "description": f"1 to {ID_BYTES} UTF-8 bytes"}
)

DocumentId = Annotated[str, Strict(), AfterValidator(document_id), _STRING_SCHEMA]
Tag = Annotated[str, Strict(), AfterValidator(_tag), Field(min_length=1)]
Label = Annotated[str, Strict(), AfterValidator(_label), Field(min_length=1)]
Text = Annotated[str, Strict(), AfterValidator(_text)]
FilledText = Annotated[str, Strict(), AfterValidator(_filled), Field(min_length=1)]
IndexedString = Annotated[str, Strict(), AfterValidator(_indexed)]
Number = Annotated[int | float, PlainValidator(_number), WithJsonSchema({"type": "number"})]
Boolean = Annotated[bool, Strict()]


def distinct(values: list[str]) -> list[str]:
    """The values without repetitions, in order of first appearance."""
    return list(dict.fromkeys(values))


def as_operators(value: Any) -> Any:
    """A bare value means equality: `{"year": 2024}` is `{"year": {"$eq": 2024}}`."""
    return value if isinstance(value, dict) else {"$eq": value}


def one_condition(operators: dict[str, Any]) -> dict[str, Any]:
    """Exactly one operator, or one lower and one upper bound: more can't be combined in Vectorize."""
    given = list(operators)
    lower = [name for name in given if name in RANGE_LOWER]
    upper = [name for name in given if name in RANGE_UPPER]
    if len(given) == 1 or (len(given) == 2 and len(lower) == 1 and len(upper) == 1):
        return operators
    if not given:
        raise refuse("needs an operator")
    raise refuse(
        f"can't combine {', '.join(given)}: give one operator, or one of $gt/$gte with one of $lt/$lte"
    )


def one_of(choices: tuple[str | int | float, ...]) -> AfterValidator:
    """Only the declared values; the message lists them."""

    def check(value: Any) -> Any:
        if value in choices:
            return value
        raise refuse(f"must be one of {', '.join(map(repr, choices))}", limit=list(choices))

    return AfterValidator(check)
