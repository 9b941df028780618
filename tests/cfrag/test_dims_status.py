"""Which step a replacement is at."""

from typing import Any, NamedTuple

import pytest

from cfrag.dims.status import Status, phase_of
from infra.config import RagConfig

LARGE = "@cf/baai/bge-large-en-v1.5"
REPLACING: dict[str, Any] = {
    "name": "docs",
    "embedding": {"model": LARGE, "generation": 2},
    "replacing": {"generation": 1, "model": "@cf/baai/bge-base-en-v1.5"},
}


class Counts(NamedTuple):
    missing: int
    failed: tuple[str, ...] = ()
    wait: int = 0


@pytest.mark.parametrize(
    ("known", "serving", "counts", "phase"),
    [
        (False, 1, Counts(0), "not deployed"),
        (True, 1, Counts(7), "re-embedding"),
        (True, 1, Counts(2, ("a",)), "re-embedding"),
        (True, 1, Counts(1, ("a",)), "blocked"),
        (True, 1, Counts(0), "settling"),
        (True, 2, Counts(0), "complete"),
        (True, 2, Counts(0, wait=20), "taking over"),
        (True, 2, Counts(1, wait=20), "behind"),
    ],
)
def test_the_step_follows_from_what_the_data_says(
    known: bool, serving: int, counts: Counts, phase: str
) -> None:
    config = RagConfig.from_pulumi(REPLACING)
    found = phase_of(config, known, serving, counts.missing, counts.failed, 2, counts.wait)
    assert found == phase


@pytest.mark.parametrize(("indexes", "phase"), [(1, "none"), (2, "ending")])
def test_without_a_replacement_two_indexes_are_one_that_was_cut_short(indexes: int, phase: str) -> None:
    config = RagConfig.from_pulumi({"name": "docs"})
    assert phase_of(config, True, 1, 0, (), indexes) == phase


def test_every_step_says_what_comes_next() -> None:
    for phase in (
        "none",
        "not deployed",
        "re-embedding",
        "blocked",
        "settling",
        "behind",
        "taking over",
        "complete",
        "ending",
    ):
        status = Status(phase, 2, LARGE, 1, 1, 10, 3, ("a",), ("docs-768-g1", "docs-1024-g2"))
        assert "generation 2" in status.sentence() or "cfrag dims" in status.sentence() or phase == "ending"
        assert status.to_json()["documents"] == {"total": 10, "done": 7, "missing": 3}
