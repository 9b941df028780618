"""Metadata filters: parsed as documented, evaluated against the values of a metadata index."""

import json
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, cast

from infra import catalog
from local import limits

IndexType = Literal["string", "number", "boolean"]
Scalar = str | float | bool | None


class Condition(NamedTuple):
    """`matches` takes what the metadata index of `property` holds for one vector."""

    property: str
    matches: Callable[[object], bool]


# What an index holds for an array: equal to no scalar, and not null either.
ARRAY: Final = object()
# What it holds for a vector that was written before the index: matched by nothing.
ABSENT: Final = object()

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$lt": lambda value, bound: bool(value < bound),
    "$lte": lambda value, bound: bool(value <= bound),
    "$gt": lambda value, bound: bool(value > bound),
    "$gte": lambda value, bound: bool(value >= bound),
}


def indexed_value(metadata: dict[str, Any], name: str, kind: IndexType) -> object:
    """What a metadata index of type `kind` keeps of `metadata` for property `name` (dots are nesting).

    A missing value, or one of another type, is null; strings are cut to their first 64 bytes.
    """
    value: Any = metadata
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, list):
        return ARRAY
    return _typed(value, kind)


def _typed(value: Any, kind: IndexType) -> Scalar:
    if kind == "string" and isinstance(value, str):
        return cut(value)
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "number" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None


def cut(text: str, limit: int = catalog.VECTORIZE_INDEXED_STRING_BYTES.value) -> str:
    """The longest prefix of `text` that is whole characters and at most `limit` bytes of UTF-8."""
    if len(text) * 4 <= limit:
        return text
    return text.encode()[:limit].decode(errors="ignore")


def parse(raw: object) -> list[Condition]:
    """The conditions of a filter, all of which must hold. Raises ApiError 40026 where one is malformed."""
    if not isinstance(raw, dict) or not raw:
        raise _refused("must be a non-empty object")
    size = len(json.dumps(raw, separators=(",", ":"), ensure_ascii=False).encode(errors="replace"))
    if size >= catalog.VECTORIZE_FILTER_BYTES.value:
        raise limits.FILTER_BYTES(actual=size)
    return [Condition(_key(key), _condition(key, value)) for key, value in raw.items()]


def _refused(problem: str) -> Exception:
    return limits.JSON_UNPARSABLE(problem=f"filter: {problem}")


def _key(key: str) -> str:
    longest = catalog.VECTORIZE_FILTER_KEY_CHARS.value
    if not key or key.startswith("$") or '"' in key or not all(key.split(".")):
        raise _refused(f"invalid key {key!r}")
    if len(key) > longest:
        raise _refused(f"key longer than {longest} characters")
    return key


def _condition(key: str, value: object) -> Callable[[object], bool]:
    if not isinstance(value, dict):
        return _equals(key, value)
    operators = set(value)
    if len(value) == 1:
        operator, operand = next(iter(value.items()))
        if operator in ("$in", "$nin"):
            return _within(key, operator, operand)
        if operator == "$eq":
            return _equals(key, operand)
        if operator == "$ne":
            equal = _equals(key, operand)
            return lambda held: held is not ABSENT and not equal(held)
    if not operators or not operators <= set(_COMPARISONS):
        raise _refused(f"{key}: operators {sorted(operators)} can't be used together or are unknown")
    if {"$lt", "$lte"} <= operators or {"$gt", "$gte"} <= operators:
        raise _refused(f"{key}: at most one lower and one upper bound")
    return _range(key, value)


def _equals(key: str, operand: object) -> Callable[[object], bool]:
    wanted = _scalar(key, operand)
    return lambda held: type(held) is type(wanted) and held == wanted


def _within(key: str, operator: str, operand: object) -> Callable[[object], bool]:
    if not isinstance(operand, list) or not operand:
        raise _refused(f"{key}: {operator} takes a non-empty array")
    # Typed, because True and 1.0 are one and the same in a Python set.
    wanted = {(type(item), item) for item in (_scalar(key, item) for item in operand)}
    if operator == "$in":
        return lambda held: (type(held), held) in wanted
    return lambda held: held is not ABSENT and (type(held), held) not in wanted


def _range(key: str, bounds: dict[str, object]) -> Callable[[object], bool]:
    checks = [(_COMPARISONS[operator], _scalar(key, bound)) for operator, bound in bounds.items()]

    def matches(held: object) -> bool:
        return held is not None and all(
            type(held) is type(bound) and compare(held, bound) for compare, bound in checks
        )

    return matches


def _scalar(key: str, value: object) -> Scalar:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if value is None or isinstance(value, str | bool):
        return cast(Scalar, value)
    raise _refused(f"{key}: expected a string, number, boolean or null")
