"""Which index a Worker reads under which binding."""

import json
from typing import Any

import pytest

from infra import wiring
from infra.config import RagConfig


def config(**values: Any) -> RagConfig:
    return RagConfig.from_pulumi({"name": "docs", **values})


def replacing(strategy: str) -> RagConfig:
    old = {"generation": 1, "model": "@cf/baai/bge-base-en-v1.5", "strategy": strategy}
    return config(embedding={"model": "@cf/baai/bge-m3", "generation": 2}, replacing=old)


def bound(value: RagConfig) -> dict[str | None, str]:
    return {space.binding: space.name for space in wiring.spaces(value, value.names("dev"))}


def test_one_space_is_read_as_vectorize() -> None:
    assert bound(config()) == {"VECTORIZE": "docs-dev-768-g1"}


def test_while_replacing_the_old_index_answers_and_the_new_one_fills() -> None:
    assert bound(replacing("reindex")) == {
        "VECTORIZE": "docs-dev-768-g1",
        "VECTORIZE_NEXT": "docs-dev-1024-g2",
    }


def test_while_discarding_only_the_new_index_is_read() -> None:
    assert bound(replacing("discard")) == {"VECTORIZE": "docs-dev-1024-g2", None: "docs-dev-768-g1"}


def test_the_variables_say_the_wanted_space() -> None:
    wanted = config(embedding={"model": "@cf/baai/bge-m3", "generation": 2})
    assert wiring.variables(wanted) == {
        "EMBED_MODEL": "@cf/baai/bge-m3",
        "EMBED_DIMS": "1024",
        "EMBED_GENERATION": "2",
        "AUTO_REINDEX_ON_MODEL_CHANGE": "true",
    }


def test_documents_may_be_told_to_keep_their_model() -> None:
    kept = config(embedding={"autoReindex": False})
    assert wiring.variables(kept)["AUTO_REINDEX_ON_MODEL_CHANGE"] == "false"


@pytest.mark.parametrize("strategy", ["reindex", "discard"])
def test_while_replacing_the_variables_say_the_other_space_too(strategy: str) -> None:
    found = wiring.variables(replacing(strategy))
    assert (found["EMBED_MODEL"], found["EMBED_GENERATION"]) == ("@cf/baai/bge-m3", "2")
    assert json.loads(found["EMBED_REPLACING"]) == {
        "generation": 1,
        "model": "@cf/baai/bge-base-en-v1.5",
        "dims": 768,
        "metric": "cosine",
        "strategy": strategy,
    }


def test_the_replaced_index_keeps_its_own_metric() -> None:
    old = {"generation": 1, "model": "@cf/baai/bge-base-en-v1.5", "metric": "euclidean"}
    value = config(embedding={"generation": 2}, replacing=old)
    assert [space.metric for space in wiring.spaces(value, value.names("dev"))] == ["cosine", "euclidean"]


def test_two_stacks_count_their_rate_limits_apart() -> None:
    names = [config().names(stack) for stack in ("dev", "prod")]
    first, second = map(wiring.rate_namespace, names)
    assert first != second
    assert 0 < int(first) < 2**31
