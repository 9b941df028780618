"""From pydantic's complaints to messages that name the Pulumi key."""

from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from infra.catalog import Limit
from infra.validation import fault, nearest, problems, pulumi_key, within

LIMIT = Limit(5, "boxes", "example.com", "2026-01-01")


class Shelf(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    boxes: Annotated[int, within(LIMIT, "the shelf")] = 1
    labels: tuple[str, ...] = ()


class Room(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    shelves: dict[str, Shelf] = {}
    spare: Shelf | None = None

    @model_validator(mode="after")
    def _no_cellar(self) -> "Room":
        if "cellar" in self.shelves:
            raise fault("floods", "shelves", "cellar")
        return self


def found(raw: object) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        Room.model_validate(raw)
    return problems(caught.value, Room, "house:room")


@pytest.mark.parametrize(("boxes", "said"), [(6, "the shelf is 6 boxes; at most 5"), (0, "at least 1")])
def test_a_number_out_of_range_is_shown_with_the_limit(boxes: int, said: str) -> None:
    ((key, message),) = found({"spare": {"boxes": boxes}})
    assert key == "house:room.spare.boxes"
    assert said in message


def test_a_key_within_a_mapping_is_named_by_its_path() -> None:
    ((key, _),) = found({"shelves": {"left": {"boxes": 6}}})
    assert key == "house:room.shelves.left.boxes"


def test_an_unknown_key_is_compared_with_those_of_its_own_place() -> None:
    ((key, message),) = found({"shelves": {"left": {"boxs": 1}}})
    assert key == "house:room.shelves.left.boxs"
    assert message == "unknown key; did you mean boxes? Known: boxes, labels"


def test_an_unknown_key_in_an_optional_part_is_compared_too() -> None:
    assert "did you mean labels?" in found({"spare": {"lables": []}})[0][1]


def test_a_fault_found_by_comparing_parts_is_at_the_part_at_fault() -> None:
    assert found({"shelves": {"cellar": {}}}) == [("house:room.shelves.cellar", "floods")]


def test_long_values_are_cut() -> None:
    ((_, message),) = found({"spare": "x" * 500})
    assert len(message) < 120


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("colour", "did you mean color? Known: color, size"),
        ("siz", "did you mean size? Known: color, size"),
        ("zzz", "known: color, size"),
    ],
)
def test_the_nearest_word_is_offered(word: str, said: str) -> None:
    assert nearest(word, ["size", "color"]) == said


def test_a_part_of_a_long_name_finds_it() -> None:
    assert nearest("m3", ["@cf/baai/bge-m3"]).startswith("known")
    assert nearest("bge-m3", ["@cf/baai/bge-m3", "@cf/other"]).startswith("did you mean @cf/baai/bge-m3?")


def test_positions_in_lists_are_in_brackets() -> None:
    assert pulumi_key("a:b", ("c", 0, "d")) == "a:b.c[0].d"
