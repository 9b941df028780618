"""Values as they may cross a binding: plain JSON types, no tuples, no empty options."""

import json
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """`value` with tuples and other sequences as lists: no binding takes a tuple."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    return value


def options(**given: Any) -> dict[str, Any]:
    """The options that have a value: a None would arrive as null, which is not the same as absent."""
    return {name: plain(value) for name, value in given.items() if value is not None}


def compact(value: Any) -> str:
    """JSON without spaces and escapes, as Vectorize counts its bytes. Raises ValueError for NaN."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def size(value: Any) -> int:
    """UTF-8 bytes of `compact(value)`."""
    return len(compact(value).encode())
