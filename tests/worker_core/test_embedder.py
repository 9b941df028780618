"""Workers AI: batches, answers and failures."""

from collections.abc import Callable
from typing import Any

import pytest

from infra.catalog import EMBEDDING_MODELS
from infra.config import RagConfig, fingerprint
from tests.worker_core.conftest import bind, config
from tests.worker_core.loading import Version
from tests.worker_core.platform_bindings import Platform


class Answering:
    """Workers AI that answers what a test says, and remembers what it was asked."""

    def __init__(self, answer: Callable[[list[str]], Any]) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    async def run(self, model: str, inputs: dict[str, Any]) -> Any:
        self.asked.append(inputs)
        return self.answer(next(value for value in inputs.values() if isinstance(value, list)))


@pytest.fixture(autouse=True)
def no_waiting(worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.retries, "DELAYS", (0, 0))


def _vectors(count: int, dims: int) -> list[list[float]]:
    return [[float(at)] * dims for at in range(count)]


def test_every_model_that_fits_is_known_with_the_fingerprint_of_the_config(worker: Any) -> None:
    known = {name: model.fingerprint for name, model in worker.models.MODELS.items()}
    assert known == {
        name: fingerprint(model) for name, model in EMBEDDING_MODELS.items() if model.dims <= 1536
    }


@pytest.mark.parametrize(
    ("model", "count", "sizes"),
    [
        ("@cf/baai/bge-small-en-v1.5", 250, [100, 100, 50]),
        ("@cf/qwen/qwen3-embedding-0.6b", 100, [32, 32, 32, 4]),
    ],
)
def test_batches_hold_no_more_texts_than_the_model_takes(
    worker: Any, model: str, count: int, sizes: list[int]
) -> None:
    groups = worker.embedder.batches(["word"] * count, worker.models.MODELS[model])
    assert [len(group) for group in groups] == sizes
    assert [at for group in groups for at in group] == list(range(count))


@pytest.mark.parametrize(
    "text", ["word " * 2_000, "漢字" * 1_500, "!?" * 2_000, "pneumonoultramicroscopic " * 400]
)
def test_batches_hold_no_more_tokens_than_the_model_takes(worker: Any, ai: Any, text: str) -> None:
    model = worker.models.MODELS["@cf/baai/bge-m3"]
    groups = worker.embedder.batches([text] * 40, model)
    assert len(groups) > 1
    for group in groups:
        counted = ai._words.tokens([text])
        assert len(group) * len(counted[0]) <= model.max_request_tokens


@pytest.mark.parametrize("form", ["data", "response"])
async def test_both_forms_of_an_answer_are_read(worker: Any, form: str) -> None:
    model = worker.models.MODELS["@cf/baai/bge-m3"]
    ai = Answering(lambda texts: {form: _vectors(len(texts), 1024), "shape": [len(texts), 1024]})
    first, second = await worker.embedder.embed_documents(ai, model, ["a", "b"])
    assert (first[0], second[0], len(second)) == (0.0, 1.0, 1024)
    assert ai.asked == [{"text": ["a", "b"]}], "this model takes no pooling"


@pytest.mark.parametrize(
    "rows",
    [
        _vectors(1, 384),
        _vectors(2, 768),
        [[0.0] * 384, [0.0] * 383],
        [[0.0] * 384, [float("nan")] * 384],
        [],
    ],
)
async def test_an_answer_of_another_shape_is_never_taken(worker: Any, rows: Any) -> None:
    model = worker.models.MODELS["@cf/baai/bge-small-en-v1.5"]
    results = await worker.embedder.embed_documents(Answering(lambda _: {"data": rows}), model, ["a", "b"])
    assert [result.status for result in results] == [502, 502]


async def test_questions_and_documents_are_asked_as_the_model_wants(worker: Any) -> None:
    asked = {}
    for name in (
        "@cf/baai/bge-small-en-v1.5",
        "@cf/qwen/qwen3-embedding-0.6b",
        "@cf/google/embeddinggemma-300m",
    ):
        model = worker.models.MODELS[name]
        ai = Answering(lambda texts, dims=model.dims: {"data": _vectors(len(texts), dims)})  # type: ignore[misc]
        await worker.embedder.embed_query(ai, model, "q")
        await worker.embedder.embed_documents(ai, model, ["d"])
        asked[name.rpartition("/")[2]] = ai.asked
    instruction = "Given a web search query, retrieve relevant passages that answer the query"
    assert asked == {
        "bge-small-en-v1.5": [{"text": ["q"], "pooling": "cls"}, {"text": ["d"], "pooling": "cls"}],
        "qwen3-embedding-0.6b": [{"queries": ["q"], "instruction": instruction}, {"documents": ["d"]}],
        "embeddinggemma-300m": [{"text": ["task: search result | query: q"]}, {"text": ["d"]}],
    }


async def test_only_a_batch_that_ai_rejects_is_halved(worker: Any) -> None:
    def answer(texts: list[str]) -> Any:
        if "poison" in texts:
            raise RuntimeError("5021: AiError: this model's context window was exceeded")
        return {"data": _vectors(len(texts), 384)}

    ai = Answering(answer)
    model = worker.models.MODELS["@cf/baai/bge-small-en-v1.5"]
    texts = [*["good"] * 5, "poison", *["good"] * 4]
    results = await worker.embedder.embed_documents(ai, model, texts)
    assert [isinstance(result, list) for result in results] == [text == "good" for text in texts]
    assert (results[5].status, results[5].field, results[5].transient) == (422, "body", False)
    assert len(ai.asked) <= 9

    failing = Answering(lambda _: (_ for _ in ()).throw(RuntimeError("3040: Capacity temporarily exceeded")))
    results = await worker.embedder.embed_documents(failing, model, texts)
    assert {result.status for result in results} == {503}
    assert len(failing.asked) == 3, "tried again as a whole"


async def test_what_no_try_changes_is_tried_once(worker: Any) -> None:
    model = worker.models.MODELS["@cf/baai/bge-small-en-v1.5"]
    for message, status in (("5018: not allowed", 502), ("3036: used up your daily free allocation", 503)):
        ai = Answering(lambda _, text=message: (_ for _ in ()).throw(RuntimeError(text)))  # type: ignore[misc]
        (result,) = await worker.embedder.embed_documents(ai, model, ["a"])
        assert (result.status, len(ai.asked)) == (status, 1)


@pytest.mark.parametrize("model", ["@cf/baai/bge-m3", "@cf/qwen/qwen3-embedding-0.6b"])
async def test_a_text_too_long_for_the_model_fails_alone(
    render_version: Callable[[RagConfig], Version], platform: Platform, ai: Any, model: str
) -> None:
    wanted = config(embedding={"model": model})
    version = render_version(wanted)
    b = bind(version, platform, wanted)
    texts = ["short", "a " * 9_000, "short too"]
    results = await version.embedder.embed_documents(b.ai, version.models.MODELS[model], texts)
    assert [isinstance(result, list) for result in results] == [True, False, True]
    assert results[1].status == 422
