"""Pulumi property values as plain Python and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi.provider.experimental.property_value import PropertyValue, PropertyValueType
from pulumi.runtime import rpc


class Unknown:
    """A value that exists only after the update: never compared, never validated."""

    def __repr__(self) -> str:
        return "<unknown>"


UNKNOWN = Unknown()
Values = dict[str, Any]
Properties = dict[str, PropertyValue]


def to_plain(value: PropertyValue) -> Any:
    """The plain value; unknowns become `UNKNOWN`, integral numbers `int`, null map entries are dropped."""
    if value.type == PropertyValueType.COMPUTED or value.value == rpc.UNKNOWN:
        return UNKNOWN
    inner: Any = value.value
    if isinstance(inner, Mapping):
        return {key: to_plain(item) for key, item in inner.items() if item.value is not None}
    if isinstance(inner, Sequence) and not isinstance(inner, str):
        return [to_plain(item) for item in inner]
    if isinstance(inner, float) and inner.is_integer():
        return int(inner)
    return inner


def to_plain_map(properties: Mapping[str, PropertyValue]) -> Values:
    """As `to_plain`, for the top level of a resource; nulls and the engine's own keys are dropped."""
    return {
        key: to_plain(value)
        for key, value in properties.items()
        if value.value is not None and not key.startswith("__")
    }


def to_property(value: Any) -> PropertyValue:
    """The property value of plain Python; `UNKNOWN` is sent as the engine's own marker."""
    if isinstance(value, Unknown):
        return PropertyValue(rpc.UNKNOWN)  # PropertyValue.computed() can't be marshalled by the SDK 3.272
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return PropertyValue(value)
    if isinstance(value, int | float):
        return PropertyValue(float(value))
    if isinstance(value, Mapping):
        return PropertyValue({str(key): to_property(item) for key, item in value.items() if item is not None})
    return PropertyValue([to_property(item) for item in value])


def to_properties(values: Mapping[str, Any], secrets: frozenset[str] = frozenset()) -> Properties:
    """Property values of the non-null `values`, those named in `secrets` marked as secret."""
    return {
        key: to_property(value).with_secret(key in secrets)
        for key, value in values.items()
        if value is not None
    }


def has_unknown(value: Any) -> bool:
    """Whether `value` is or holds an unknown."""
    if isinstance(value, Mapping):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return isinstance(value, Unknown)


def child_path(path: str, key: str | int) -> str:
    """The property path of a child as the engine spells it: `a.b`, `a["b/c"]` or `a[0]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not path:
        return key
    return f"{path}.{key}" if key.isidentifier() else f"{path}[{json.dumps(key, ensure_ascii=False)}]"
