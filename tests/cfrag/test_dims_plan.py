"""What a replacement is said to cost."""

import pytest

from cfrag.dims.plan import Plan, estimate
from infra.catalog import EMBEDDING_MODELS
from infra.config import RagConfig

LARGE, QWEN = "@cf/baai/bge-large-en-v1.5", "@cf/qwen/qwen3-embedding-0.6b"
GEMMA, M3 = "@cf/google/embeddinggemma-300m", "@cf/baai/bge-m3"
CONFIG = RagConfig.from_pulumi({"name": "docs"})


def plan(model: str, documents: int, lengths: list[int]) -> Plan:
    return estimate(CONFIG, EMBEDDING_MODELS[model], "cosine", documents, lengths)


def test_tokens_are_those_of_the_sample_for_all_documents() -> None:
    assert plan(LARGE, 1000, [100, 300]).tokens == 200_000


def test_a_text_costs_no_more_tokens_than_the_model_takes() -> None:
    found = plan(LARGE, 10, [5_000])
    assert found.tokens == 10 * 512
    assert found.longest == 5_000


@pytest.mark.parametrize(
    ("model", "length", "calls"),
    [
        pytest.param(LARGE, 100, 10, id="100 texts"),
        pytest.param(QWEN, 100, 32, id="32 texts"),
        pytest.param(M3, 6_000, 100, id="60,000 tokens"),
    ],
)
def test_calls_follow_from_what_a_model_takes_at_once(model: str, length: int, calls: int) -> None:
    assert plan(model, 1000, [length]).calls == calls


def test_the_cost_is_the_catalogs_price() -> None:
    price = EMBEDDING_MODELS[LARGE].price_per_million_tokens
    assert price
    assert plan(LARGE, 10_000, [100]).cost == pytest.approx(price)


def test_a_model_without_a_price_has_no_cost() -> None:
    assert plan(GEMMA, 10_000, [100]).cost is None


def test_meanwhile_both_spaces_are_stored() -> None:
    shown = plan(LARGE, 10, []).to_json()["vectorBytes"]
    assert shown == {"now": 10 * 768 * 4, "meanwhile": 10 * (768 + 1024) * 4, "after": 10 * 1024 * 4}
