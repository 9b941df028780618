"""`--where` conditions, as a person types them, into the service's filter."""

import json
import re
from collections.abc import Iterable
from typing import Any

from cfrag.errors import InputError

_CONDITION = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*(!=|<=|>=|=|<|>)\s*(.*?)\s*", re.DOTALL)
_OPERATORS = {"=": "$eq", "!=": "$ne", "<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte"}


def parse_where(conditions: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The filter for conditions such as `chapter=types` and `words<100`, all of which must hold.

    A value that is JSON (a number, true, "quoted") is that; anything else is a string.
    """
    parsed: dict[str, dict[str, Any]] = {}
    for condition in conditions:
        match = _CONDITION.fullmatch(condition)
        if match is None:
            raise InputError(f'"{condition}" is no condition; write one like chapter=types or words<100')
        name, sign, value = match.groups()
        operator = _OPERATORS[sign]
        if operator in parsed.setdefault(name, {}):
            raise InputError(f'"{condition}": {name} has a condition with {sign} already')
        parsed[name][operator] = _value(value)
    return parsed


def parse_filter(text: str | None) -> dict[str, Any]:
    """The filter given as JSON."""
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InputError(f"--filter is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError('--filter must be a JSON object, such as \'{"words": {"$lt": 100}}\'')
    return value


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
