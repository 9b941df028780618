import pytest

from cfrag.errors import InputError
from cfrag.filters import parse_filter, parse_where


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("chapter=types", {"chapter": {"$eq": "types"}}),
        ("words < 100", {"words": {"$lt": 100}}),
        ("words>=1.5", {"words": {"$gte": 1.5}}),
        ("draft!=true", {"draft": {"$ne": True}}),
        ('year="2024"', {"year": {"$eq": "2024"}}),
        ("title=a = b", {"title": {"$eq": "a = b"}}),
    ],
)
def test_conditions_become_operators(condition: str, expected: dict[str, object]) -> None:
    assert parse_where([condition]) == expected


def test_two_bounds_of_a_field_are_one_range() -> None:
    assert parse_where(["words>=10", "words<20"]) == {"words": {"$gte": 10, "$lt": 20}}


@pytest.mark.parametrize("condition", ["chapter", "=types", "a b=c", ""])
def test_what_is_no_condition_is_named(condition: str) -> None:
    with pytest.raises(InputError, match="is no condition"):
        parse_where([condition])


def test_one_sign_twice_would_drop_a_condition_and_is_refused() -> None:
    with pytest.raises(InputError, match="words has a condition with < already"):
        parse_where(["words<10", "words<20"])


@pytest.mark.parametrize("text", ["{", "[]", '"words"'])
def test_a_filter_must_be_a_json_object(text: str) -> None:
    with pytest.raises(InputError, match="--filter"):
        parse_filter(text)
