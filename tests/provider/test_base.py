"""Typed inputs: what is refused, what is unknown, and what counts as a change."""

from pydantic import Field

from infra.provider.base import Change, Inputs, changes_between, parse
from infra.provider.values import UNKNOWN


class Shape(Inputs):
    side_length: int = Field(le=10)
    colour: str


def test_inputs_are_taken_by_their_camel_case_names() -> None:
    assert parse(Shape, {"sideLength": 3, "colour": "red"}) == (Shape(side_length=3, colour="red"), [])


def test_a_wrong_input_is_named_with_its_value() -> None:
    shape, failures = parse(Shape, {"sideLength": 11, "colour": "red", "colur": "blue"})
    assert shape is None
    reasons = {failure.property: failure.reason for failure in failures}
    assert "less than or equal to 10" in reasons["sideLength"]
    assert "11" in reasons["sideLength"]
    assert "colur" in reasons


def test_an_unknown_input_is_neither_missing_nor_wrong() -> None:
    assert parse(Shape, {"sideLength": UNKNOWN, "colour": "red"}) == (None, [])


def test_a_known_input_is_checked_although_another_is_unknown() -> None:
    _, failures = parse(Shape, {"sideLength": 11, "colour": UNKNOWN})
    assert [failure.property for failure in failures] == ["sideLength"]


def test_maps_differ_key_by_key() -> None:
    old = {"a.py": "1", "b.py": "1", "c.py": "1"}
    new = {"a.py": "1", "b.py": "2", "d.py": "1"}
    assert list(changes_between(old, new, "manifest")) == [
        Change('manifest["b.py"]', "update"),
        Change('manifest["c.py"]', "delete"),
        Change('manifest["d.py"]', "add"),
    ]


def test_a_path_leads_back_to_its_property() -> None:
    assert Change('manifest["src/rag.v2/core.py"]', "update").top == "manifest"
    assert Change("bindings.DB.id", "update").top == "bindings"


def test_an_unknown_new_value_counts_as_a_change() -> None:
    assert list(changes_between({"id": "x"}, {"id": UNKNOWN}, "db")) == [Change("db.id", "update")]


def test_equal_values_are_no_change() -> None:
    assert not list(changes_between({"n": 768, "l": [1, {"a": None}]}, {"n": 768, "l": [1, {}]}, "x"))
