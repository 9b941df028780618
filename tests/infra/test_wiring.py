"""Which index a Worker reads under which binding."""

from typing import Any

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
    assert wiring.variables(replacing("reindex")) == {
        "EMBED_MODEL": "@cf/baai/bge-m3",
        "EMBED_DIMS": "1024",
        "EMBED_GENERATION": "2",
        "AUTO_REINDEX_ON_MODEL_CHANGE": "true",
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
