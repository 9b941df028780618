"""What a change of the config means for the documents, without asking the account."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from cfrag.dims.plan import Plan
from cfrag.preview_embedding import Embedding, examine
from cfrag.preview_markdown import StackPreview, comment
from infra.catalog import EMBEDDING_MODELS

RAG: dict[str, Any] = {"name": "docs", "metadata": {"words": {"type": "number"}}}
GEMMA = "@cf/google/embeddinggemma-300m"


def looked_at(folder: Path, change: dict[str, Any]) -> Embedding | None:
    for name, rag in (("base", RAG), ("head", RAG | change)):
        (folder / name).mkdir()
        settings = {"config": {"cf-rag:rag": rag}}
        (folder / name / "Pulumi.prod.yaml").write_text(yaml.safe_dump(settings))
    return examine("prod", folder / "head", folder / "base", ask_account=False)


@pytest.mark.parametrize(
    ("change", "again", "rewritten"),
    [
        ({"search": {"defaultTopK": 5}}, False, False),
        ({"metadata": {"words": {"type": "number"}, "author": {"type": "string"}}}, False, True),
        ({"metadata": {"words": {"type": "number", "description": "Length"}}}, False, False),
        ({"embedding": {"model": GEMMA}}, True, False),
        ({"embedding": {"model": GEMMA, "autoReindex": False}}, False, False),
        ({"embedding": {"generation": 2}}, True, False),
        ({"embedding": {"metric": "euclidean"}}, True, False),
    ],
)
def test_documents_are_embedded_again_written_again_or_left_alone(
    tmp_path: Path, change: dict[str, Any], again: bool, rewritten: bool
) -> None:
    found = looked_at(tmp_path, change)
    assert found is not None
    assert (found.again, found.rewritten) == (again, rewritten)


def test_a_stack_that_the_base_does_not_know_has_no_documents(tmp_path: Path) -> None:
    assert examine("prod", tmp_path, tmp_path, ask_account=False) is None


def test_the_cost_is_the_catalogs_price_of_the_estimated_tokens_with_its_source() -> None:
    model = EMBEDDING_MODELS["@cf/baai/bge-m3"]
    plan = Plan(model, model, 1, "cosine", 2_000, 100, 1_000_000, 900, 20)
    shown = comment([StackPreview("prod", None, Embedding(True, False, model.name, plan), None)], base="main")
    assert "2,000 will be embedded again" in shown
    assert "about 1,000,000 tokens in 20 AI calls, about $0.0118" in shown
    assert model.as_of in shown
