"""What the steps of a replacement write into a stack's settings."""

from typing import Any

import pytest

from cfrag.dims.stack import Change, abort_change, apply, start_change
from cfrag.errors import InputError
from infra.config import RagConfig

BASE, LARGE = "@cf/baai/bge-base-en-v1.5", "@cf/baai/bge-large-en-v1.5"
RAG: dict[str, Any] = {"name": "docs", "metadata": {"words": {"type": "number"}}}


def config(raw: dict[str, Any]) -> RagConfig:
    return RagConfig.from_pulumi(raw)


def test_a_start_names_the_next_generation_and_what_it_replaces() -> None:
    started = apply(RAG, start_change(config(RAG), LARGE, None, "reindex"))
    assert started == RAG | {
        "embedding": {"model": LARGE, "generation": 2},
        "replacing": {"generation": 1, "model": BASE, "strategy": "reindex"},
    }


def test_another_metric_is_replaced_by_name() -> None:
    started = config(apply(RAG, start_change(config(RAG), BASE, "euclidean", "reindex")))
    assert started.embedding.metric == "euclidean"
    assert started.replacing
    assert started.replacing.metric == "cosine"


@pytest.mark.parametrize("metric", [None, "euclidean"])
def test_an_abort_leads_back_to_the_same_space(metric: str | None) -> None:
    started = apply(RAG, start_change(config(RAG), LARGE, metric, "reindex"))
    back = config(apply(started, abort_change(config(started))))
    assert (back.embedding, back.replacing) == (config(RAG).embedding, None)


@pytest.mark.parametrize(
    ("model", "says"), [(BASE, "already"), ("@cf/baai/bge-huge", "catalog")], ids=["the same", "unknown"]
)
def test_nothing_to_change_to_is_refused(model: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        start_change(config(RAG), model, None, "reindex")


def test_settings_that_are_given_stay_as_they_were() -> None:
    before = RAG | {"search": {"maxTopK": 20}}
    assert apply(before, Change({"embedding.generation": "2"}))["search"] == {"maxTopK": 20}
    assert "embedding" not in before
