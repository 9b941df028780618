"""The content hash."""

import hashlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worker_core.conftest import config
from tests.worker_core.loading import Version, render

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.one_of(
    TEXT, st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False)
)
METADATA = st.dictionaries(TEXT, VALUES, max_size=5)


@pytest.fixture(scope="module")
def hashing(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return Version(render(config(), tmp_path_factory.mktemp("hashing"))).hashing


def test_the_hash_is_the_same_on_every_machine_and_release(hashing: Any) -> None:
    hashed = hashing.content_hash("Café", "Ünïcode ✓ 漢字", ["b", "a"], {"year": 2024, "draft": False})
    serialised = (
        '{"body":"Ünïcode ✓ 漢字","metadata":{"draft":false,"year":2024},"tags":["a","b"],"title":"Café"}'
    )
    assert hashed == f"v1:{hashlib.sha256(serialised.encode()).hexdigest()}"
    assert hashed == "v1:371c6201e9cf68d099ef06185f27818d8903873533b698f15e450236cc664544"


@given(title=st.none() | TEXT, body=TEXT, tags=st.lists(TEXT, max_size=4), metadata=METADATA, data=st.data())
def test_order_and_repetition_do_not_count(
    hashing: Any, title: str | None, body: str, tags: list[str], metadata: dict[str, Any], data: Any
) -> None:
    shuffled = data.draw(st.permutations([*tags, *tags]))
    turned = dict(reversed(metadata.items()))
    assert hashing.content_hash(title, body, tags, metadata) == hashing.content_hash(
        title, body, shuffled, turned
    )


@given(number=st.integers(-(2**53), 2**53))
def test_an_integral_float_is_the_integer(hashing: Any, number: int) -> None:
    as_float = hashing.content_hash(None, "b", [], {"n": float(number)})
    assert as_float == hashing.content_hash(None, "b", [], {"n": number})


@pytest.mark.parametrize(
    "other",
    [
        ("t", "b", ["x"], {"n": 2}),
        ("u", "b", ["x"], {"n": 1}),
        ("t", "c", ["x"], {"n": 1}),
        ("t", "b", ["x", "y"], {"n": 1}),
        ("t", "b", ["x"], {"m": 1}),
        ("t", "b", ["x"], {"n": True}),
        ("t", "b", ["x"], {"n": "1"}),
        (None, "b", ["x"], {"n": 1}),
    ],
)
def test_every_part_of_the_content_counts(hashing: Any, other: Any) -> None:
    assert hashing.content_hash(*other) != hashing.content_hash("t", "b", ["x"], {"n": 1})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_is_refused(hashing: Any, number: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        hashing.content_hash(None, "b", [], {"n": number})
