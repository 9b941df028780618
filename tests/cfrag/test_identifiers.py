import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from cfrag.identifiers import fold_id

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=120)


def test_an_id_that_fits_stays_as_it_is() -> None:
    assert fold_id("docs/guide.md") == "docs/guide.md"
    assert fold_id("a" * 64) == "a" * 64


def test_length_is_counted_in_bytes_not_characters() -> None:
    assert fold_id("é" * 32) == "é" * 32
    assert fold_id("é" * 33) != "é" * 33


def test_two_long_names_with_a_common_beginning_stay_two() -> None:
    assert fold_id("x" * 70 + "1") != fold_id("x" * 70 + "2")


def test_both_ways_to_write_an_accent_are_one_id() -> None:
    assert fold_id("cafe\u0301") == fold_id("caf\u00e9")
    assert fold_id("e\u0301" * 40) == fold_id("\u00e9" * 40)


def test_a_long_name_keeps_its_beginning_for_people_to_read() -> None:
    assert fold_id("guide/" + "deep/" * 20).startswith("guide/deep/")


@given(TEXT)
def test_every_result_fits_and_is_stable(name: str) -> None:
    folded = fold_id(name)
    assert len(folded.encode()) <= 64
    assert fold_id(name) == folded
    assert fold_id(folded) == folded
    assert unicodedata.is_normalized("NFC", folded)
