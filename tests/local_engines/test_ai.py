"""Workers AI's embeddings: meaning is kept, models don't mix, answers have the models' own shape."""

import logging
from typing import Any

import cloudflare
import numpy as np
import pytest

from infra.catalog import EMBEDDING_MODELS
from local.ai import EmbeddingService
from local.ai.wordvectors import orthonormal_map
from local.envelope import ApiError

ACCOUNT = "0123456789abcdef0123456789abcdef"
BGE = "@cf/baai/bge-base-en-v1.5"
SMALL = "@cf/baai/bge-small-en-v1.5"
M3 = "@cf/baai/bge-m3"
QWEN = "@cf/qwen/qwen3-embedding-0.6b"
GEMMA = "@cf/google/embeddinggemma-300m"
TEXTS = ["How to raise an exception", "Throwing errors in Python", "A recipe for banana bread"]


def vectors(embedder: EmbeddingService, model: str = BGE, **body: Any) -> Any:
    return np.array(embedder.run(model, body)["data"])


@pytest.mark.parametrize("model", EMBEDDING_MODELS.values(), ids=EMBEDDING_MODELS.keys())
def test_every_model_of_the_catalog_answers_with_its_dimensions(
    embedder: EmbeddingService, model: Any
) -> None:
    answer = embedder.run(model.name, {model.document_key: TEXTS})
    assert answer["shape"] == [3, model.dims]
    assert [len(row) for row in answer["data"]] == [model.dims] * 3
    assert np.allclose(np.linalg.norm(answer["data"], axis=1), 1, atol=1e-5)


def test_like_texts_are_nearer_than_unlike_ones(embedder: EmbeddingService) -> None:
    similar, same, unlike = vectors(embedder, text=TEXTS) @ vectors(embedder, text=TEXTS[0])[0]
    assert similar == pytest.approx(1, abs=1e-5)
    assert same > unlike + 0.1


def test_cosines_are_the_same_for_every_model(embedder: EmbeddingService) -> None:
    small, base = vectors(embedder, SMALL, text=TEXTS), vectors(embedder, BGE, text=TEXTS)
    assert np.allclose(small @ small.T, base @ base.T, atol=1e-5)


def test_vectors_of_two_models_or_two_poolings_are_unrelated(embedder: EmbeddingService) -> None:
    base = vectors(embedder, BGE, text=TEXTS[0])[0]
    assert abs(base @ vectors(embedder, GEMMA, text=TEXTS[0])[0]) < 0.3
    assert abs(base @ vectors(embedder, BGE, text=TEXTS[0], pooling="cls")[0]) < 0.3


def test_a_text_has_one_vector_whatever_stands_next_to_it(embedder: EmbeddingService) -> None:
    alone = vectors(embedder, text=[TEXTS[0]])[0]
    assert np.allclose(alone, vectors(embedder, text=["x " * 300, TEXTS[0], "y"])[1], atol=1e-6)
    assert np.allclose(alone, vectors(EmbeddingService(), text=[TEXTS[0]])[0], atol=1e-6)


def test_a_single_text_may_be_a_string(embedder: EmbeddingService) -> None:
    assert embedder.run(BGE, {"text": "one"})["shape"] == [1, 768]


def test_bge_says_how_it_pooled(embedder: EmbeddingService) -> None:
    assert embedder.run(BGE, {"text": "a"})["pooling"] == "mean"
    assert embedder.run(BGE, {"text": "a", "pooling": "cls"})["pooling"] == "cls"
    assert "pooling" not in embedder.run(QWEN, {"documents": "a"})


def test_a_query_is_near_the_same_text_as_a_document_but_not_equal(embedder: EmbeddingService) -> None:
    query = vectors(embedder, QWEN, queries=TEXTS[0])[0]
    document = vectors(embedder, QWEN, documents=TEXTS[0])[0]
    assert 0.95 < query @ document < 0.99999
    other = vectors(embedder, QWEN, queries=TEXTS[0], instruction="Find recipes for cake")[0]
    assert 0.95 < query @ other < 0.99999


def test_an_instruction_in_front_of_the_text_changes_it_little(embedder: EmbeddingService) -> None:
    prefix = EMBEDDING_MODELS[GEMMA].query_instruction
    asked, plain = vectors(embedder, GEMMA, text=[f"{prefix}{TEXTS[0]}", TEXTS[0]])
    assert 0.95 < asked @ plain < 0.99999


@pytest.mark.parametrize(
    "body",
    [{}, {"queries": "a", "documents": "b"}, {"queries": "a", "instruction": 1}, {"text": [1]}, {"text": []}],
)
def test_a_malformed_input_is_refused(embedder: EmbeddingService, body: Any) -> None:
    with pytest.raises(ApiError) as refusal:
        embedder.run(QWEN, body)
    assert refusal.value.code == 5006


def test_bge_cuts_a_long_text_and_bge_m3_refuses_it_unless_asked_to_cut(embedder: EmbeddingService) -> None:
    start = "word " * 600
    long, longer = vectors(embedder, BGE, text=[start + "apple " * 100, start + "pear " * 100])
    assert np.array_equal(long, longer)
    with pytest.raises(ApiError, match="context window limit"):
        embedder.run(M3, {"text": "word " * 9000})
    assert embedder.run(M3, {"text": "word " * 9000, "truncate_inputs": True})["shape"] == [1, 1024]


def test_bge_m3_ranks_contexts_for_a_query_and_embeds_them_without_one(embedder: EmbeddingService) -> None:
    contexts = [{"text": text} for text in reversed(TEXTS)]
    ranked = embedder.run(M3, {"query": "raise an exception", "contexts": contexts})["response"]
    assert ranked[0]["id"] == 2
    assert ranked[0]["score"] > ranked[2]["score"]
    embedded = embedder.run(M3, {"contexts": contexts})
    assert (embedded["shape"], len(embedded["response"])) == ([3, 1024], 3)


def test_a_map_keeps_lengths_and_is_the_same_every_time() -> None:
    first = orthonormal_map("model:mean", 384)
    assert np.allclose(first @ first.T, np.eye(256), atol=1e-5)
    orthonormal_map.cache_clear()
    assert np.array_equal(first, orthonormal_map("model:mean", 384))
    with pytest.raises(ValueError, match="255 dimensions"):
        orthonormal_map("model:mean", 255)


def test_loading_the_weights_leaves_the_programs_logging_alone(embedder: EmbeddingService) -> None:
    before = (list(logging.getLogger().handlers), logging.getLogger().level)
    EmbeddingService().run(BGE, {"text": "a"})
    assert (list(logging.getLogger().handlers), logging.getLogger().level) == before


def test_the_sdk_runs_a_model(server: Any) -> None:
    answer = server.client.ai.run(BGE, account_id=ACCOUNT, text=TEXTS)
    assert answer["shape"] == [3, 768]


@pytest.mark.parametrize(("model", "body", "code"), [("@cf/x/y", {"text": "a"}, 5007), (BGE, {}, 5006)])
def test_the_sdk_sees_workers_ais_errors(server: Any, model: str, body: Any, code: int) -> None:
    with pytest.raises(cloudflare.BadRequestError) as refusal:
        server.client.ai.run(model, account_id=ACCOUNT, extra_body=body, text="" if body else [])
    assert refusal.value.errors[0].code == code


def test_a_body_that_is_no_json_is_bad_input(server: Any) -> None:
    answer = server.rest("POST", f"/ai/run/{BGE}", content=b"{")
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, 5006)
