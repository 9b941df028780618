"""Filters: every operator as documented, and against an oracle that knows nothing of the implementation."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.envelope import ApiError
from local.vectorize.filters import ABSENT, cut, indexed_value, parse


def matches(condition: Any, value: Any, kind: str = "string", key: str = "f") -> bool:
    held = indexed_value({key: value} if value is not None else {}, key, kind)  # type: ignore[arg-type]
    return all(one.matches(held) for one in parse({key: condition}))


@pytest.mark.parametrize(
    ("condition", "kind", "yes", "no"),
    [
        ("a", "string", ["a"], ["b", "ab", None, 1, True, ["a"]]),
        ({"$eq": "a"}, "string", ["a"], ["b", None]),
        ({"$ne": "a"}, "string", ["b", None, ["a"]], ["a"]),
        ({"$in": ["a", "b"]}, "string", ["a", "b"], ["c", None, ["a"]]),
        ({"$nin": ["a", "b"]}, "string", ["c", None, ["a"]], ["a", "b"]),
        ({"$gte": "net", "$lt": "neu"}, "string", ["net", "netflix"], ["neu", "ne", "nf", None]),
        (None, "string", [None, 7], ["", "a", ["a"]]),
        ({"$ne": None}, "string", ["a", ["a"]], [None]),
        (42, "number", [42, 42.0], [41, None, "42", True]),
        (1, "number", [1], [True]),
        (True, "boolean", [True], [False, 1, "true", None]),
        ({"$ne": True}, "boolean", [False, None], [True]),
        ({"$in": [1, "1"]}, "number", [1], [2, True]),
        ({"$gt": 1}, "number", [1.5, 2], [1, 0, None]),
        ({"$gt": 1, "$lte": 3}, "number", [2, 3], [1, 4]),
        ({"$lt": 0.1 + 0.2}, "number", [0.3], [0.30000000000000004]),
        ({"$lt": "5"}, "number", [], [4, 6]),
    ],
)
def test_an_operator_matches_what_the_documentation_says(
    condition: Any, kind: str, yes: list[Any], no: list[Any]
) -> None:
    assert [value for value in yes if not matches(condition, value, kind)] == []
    assert [value for value in no if matches(condition, value, kind)] == []


def test_dots_in_a_key_are_nesting() -> None:
    metadata = {"pandas": {"nice": 42}}
    (condition,) = parse({"pandas.nice": 42})
    assert condition.property == "pandas.nice"
    assert condition.matches(indexed_value(metadata, "pandas.nice", "number"))
    assert indexed_value({"pandas": "none"}, "pandas.nice", "number") is None


def test_a_string_is_indexed_up_to_64_bytes_of_whole_characters() -> None:
    assert cut("é" * 40) == "é" * 32
    assert cut("x" + "é" * 40) == "x" + "é" * 31
    assert matches("a" * 64, "a" * 100)
    assert not matches("a" * 65, "a" * 100)


@pytest.mark.parametrize(
    "raw",
    [
        [],
        "x",
        {},
        {"": 1},
        {"$and": [{"a": 1}]},
        {"a..b": 1},
        {'say "hi"': 1},
        {"k" * 513: 1},
        {"a": {}},
        {"a": {"b": 1}},
        {"a": ["x"]},
        {"a": {"$eq": ["x"]}},
        {"a": {"$in": "x"}},
        {"a": {"$in": []}},
        {"a": {"$in": [["x"]]}},
        {"a": {"$regex": "x"}},
        {"a": {"$eq": 1, "$gt": 0}},
        {"a": {"$in": [1], "$nin": [2]}},
        {"a": {"$gt": 1, "$gte": 1}},
        {"a": {"$lt": 1, "$lte": 1}},
        {"a": {"$gt": 1, "$in": [1]}},
    ],
)
def test_a_malformed_filter_is_refused(raw: Any) -> None:
    with pytest.raises(ApiError) as refusal:
        parse(raw)
    assert refusal.value.code == 40026


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(-3, 3, allow_nan=False).map(lambda number: round(number, 1)),
    st.sampled_from(["", "a", "b", "é", "a" * 63 + "é", "a" * 70]),
)
stored = st.one_of(scalars, st.lists(scalars, max_size=2))
equalities = st.one_of(
    scalars,
    st.builds(lambda value: {"$eq": value}, scalars),
    st.builds(lambda value: {"$ne": value}, scalars),
    st.builds(lambda values: {"$in": values}, st.lists(scalars, min_size=1, max_size=3)),
    st.builds(lambda values: {"$nin": values}, st.lists(scalars, min_size=1, max_size=3)),
)
ranges = st.builds(
    lambda low, high: {key: value for key, value in (low, high) if key},
    st.tuples(st.sampled_from(["$gt", "$gte"]), scalars),
    st.tuples(st.sampled_from(["", "$lt", "$lte"]), scalars),
)


def kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "null" if value is None else "number"


def same(left: Any, right: Any) -> bool:
    return kind_of(left) == kind_of(right) and kind_of(left) != "array" and bool(left == right)


def oracle(condition: Any, value: Any, kind: str) -> bool:
    """The documented rules, one after the other, on one stored value."""
    if kind_of(value) == "string" and kind == "string":
        kept = value
        while len(kept.encode()) > 64:
            kept = kept[:-1]
        value = kept
    elif kind_of(value) not in (kind, "array"):
        value = None
    if not isinstance(condition, dict):
        condition = {"$eq": condition}
    results = []
    for operator, operand in condition.items():
        if operator in ("$in", "$nin"):
            found = any(same(value, one) for one in operand)
            results.append(found == (operator == "$in"))
        elif operator in ("$eq", "$ne"):
            results.append(same(value, operand) == (operator == "$eq"))
        elif kind_of(value) != kind_of(operand) or kind_of(value) in ("null", "array"):
            results.append(False)
        else:
            left, right = (value.encode(), operand.encode()) if isinstance(value, str) else (value, operand)
            results.append(
                {
                    "$lt": left < right,
                    "$lte": left <= right,
                    "$gt": left > right,
                    "$gte": left >= right,
                }[operator]
            )
    return all(results)


@given(
    condition=st.one_of(equalities, ranges),
    value=stored,
    kind=st.sampled_from(["string", "number", "boolean"]),
)
def test_a_condition_agrees_with_a_naive_oracle(condition: Any, value: Any, kind: str) -> None:
    assert matches(condition, value, kind) == oracle(condition, value, kind)


@given(condition=st.one_of(equalities, ranges))
def test_a_vector_outside_the_metadata_index_matches_nothing(condition: Any) -> None:
    (parsed,) = parse({"f": condition})
    assert not parsed.matches(ABSENT)


@given(number=st.floats(-1e300, 1e300))
def test_numbers_are_compared_as_float64(number: float) -> None:
    assert matches(number, number, "number")
    assert not matches({"$gt": number}, number, "number")
    assert matches({"$lt": math.nextafter(number, math.inf)}, number, "number")
