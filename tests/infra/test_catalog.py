"""The tables of models and limits."""

from datetime import date

import pytest

from infra import catalog
from infra.catalog import EMBEDDING_MODELS, EmbeddingModel, Limit

LIMITS = {name: value for name, value in vars(catalog).items() if isinstance(value, Limit)}


@pytest.mark.parametrize("name", LIMITS)
def test_every_limit_is_dated_and_says_where_it_is_from(name: str) -> None:
    limit = LIMITS[name]
    assert date(2024, 1, 1) < date.fromisoformat(limit.as_of) <= date.today()
    assert limit.source
    assert limit.unit
    assert limit.value > 0


@pytest.mark.parametrize("model", EMBEDDING_MODELS.values(), ids=lambda model: model.name)
def test_every_model_is_dated_and_under_its_own_name(model: EmbeddingModel) -> None:
    assert EMBEDDING_MODELS[model.name] is model
    assert date.fromisoformat(model.as_of) <= date.today()
    assert model.source.endswith(model.name)
    assert model.max_batch <= 100


def test_a_refusal_names_the_thing_its_size_the_limit_and_the_source() -> None:
    limit = Limit(10, "boxes", "example.com/limits", "2026-01-02")
    assert limit.refusal("the shelf", 1234) == (
        "the shelf is 1,234 boxes; at most 10 allowed (example.com/limits, as of 2026-01-02)"
    )
