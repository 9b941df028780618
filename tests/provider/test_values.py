"""What crosses between the engine's values and plain Python."""

import pytest
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.runtime import rpc

from infra.provider.values import UNKNOWN, child_path, has_unknown, to_plain, to_properties, to_property


@pytest.mark.parametrize(
    "value", [True, "text", 768, 0.5, [1, "two", {"three": 3}], {"a": {"b": [False]}}, {}, []]
)
def test_plain_values_come_back_as_they_were(value: object) -> None:
    assert to_plain(PropertyValue.unmarshal(to_property(value).marshal())) == value


def test_integral_numbers_become_integers_and_others_stay() -> None:
    assert [type(to_plain(PropertyValue(number))) for number in (768.0, 0.5)] == [int, float]


def test_an_unknown_crosses_in_both_directions() -> None:
    sent = to_property(UNKNOWN).marshal()
    assert sent.string_value == rpc.UNKNOWN
    assert to_plain(PropertyValue.unmarshal(sent)) is UNKNOWN


def test_an_unknown_is_found_at_any_depth() -> None:
    assert has_unknown({"a": [{"b": UNKNOWN}]})
    assert not has_unknown({"a": [{"b": None}]})


def test_named_outputs_are_marked_as_secret() -> None:
    properties = to_properties({"token": "t", "name": "n", "gone": None}, frozenset({"token"}))
    assert {name: value.is_secret for name, value in properties.items()} == {"token": True, "name": False}


@pytest.mark.parametrize(
    ("path", "key", "expected"),
    [
        ("", "dims", "dims"),
        ("bindings", "DB", "bindings.DB"),
        ("manifest", "rag/core.py", 'manifest["rag/core.py"]'),
        ("versions", 0, "versions[0]"),
    ],
)
def test_paths_are_spelled_as_the_engine_does(path: str, key: str | int, expected: str) -> None:
    assert child_path(path, key) == expected
