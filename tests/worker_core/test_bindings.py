"""Which index is which, as a deployment of a config binds them."""

from types import SimpleNamespace
from typing import Any

import pytest

from infra import wiring
from infra.config import RagConfig
from tests.worker_core.conftest import config
from tests.worker_core.loading import Version

BASE, M3 = "@cf/baai/bge-base-en-v1.5", "@cf/baai/bge-m3"


def _env(wanted: RagConfig) -> Any:
    """What the stack declares: each index by its name, and the variables."""
    indexes = {each.binding: each.name for each in wiring.spaces(wanted, wanted.names("dev")) if each.binding}
    return SimpleNamespace(DB="db", AI="ai", **indexes, **wiring.variables(wanted))


def _replacing(strategy: str) -> RagConfig:
    old = {"generation": 3, "model": BASE, "strategy": strategy, "metric": "euclidean"}
    return config(embedding={"model": M3, "generation": 4}, replacing=old)


def test_one_index_is_that_of_the_own_generation(worker: Version) -> None:
    b = worker.bindings.Bindings.from_env(_env(config(embedding={"model": M3, "generation": 4})))
    assert (b.vars.model, b.vars.dims, b.vars.generation, b.vars.replacing) == (M3, 1024, 4, None)
    assert (b.index(4), b.index(3)) == ("core-dev-1024-g4", None)


def test_while_replacing_each_generation_has_its_index(worker: Version) -> None:
    b = worker.bindings.Bindings.from_env(_env(_replacing("reindex")))
    assert (b.index(4), b.index(3), b.index(2)) == ("core-dev-1024-g4", "core-dev-768-g3", None)
    assert b.vars.replacing == worker.bindings.Replaced(3, BASE, 768, "euclidean", "reindex")


def test_while_discarding_there_is_no_other_index(worker: Version) -> None:
    b = worker.bindings.Bindings.from_env(_env(_replacing("discard")))
    assert (b.index(4), b.index(3)) == ("core-dev-1024-g4", None)
    assert b.vars.replacing.strategy == "discard"


@pytest.mark.parametrize("generation", [3, 4])
def test_an_index_that_is_not_bound_is_an_error_and_not_the_other_one(
    worker: Version, generation: int
) -> None:
    wanted = config(embedding={"model": M3, "generation": 7 - generation})
    b = worker.bindings.Bindings.from_env(_env(wanted))
    with pytest.raises(LookupError, match=f"generation {generation}"):
        b.bound(generation)
