"""Workers AI's embedding models, answered by word vectors that keep what those models promise."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from infra.catalog import EMBEDDING_MODELS, EmbeddingModel
from local.ai import inputs
from local.ai.inputs import Inputs
from local.ai.wordvectors import FloatArray, Tokens, WordVectors, orthonormal_map, unit

JsonObject = dict[str, Any]

# An instruction moves a query a little towards itself: enough to be another vector, too little to get lost.
_INSTRUCTION_WEIGHT = 0.05
# Seven digits are all that float32 holds, and a third of the JSON.
_DIGITS = 7


class EmbeddingService:
    """Embeds texts with any model of the catalog. Methods block: call them from a thread.

    Vectors have length 1. The same text has the same vector on every machine; cosines between
    texts are the same for all models, and vectors of two models (or two poolings) are unrelated.
    """

    def __init__(self) -> None:
        self._words = WordVectors()

    def run(self, name: str, raw: Any) -> JsonObject:
        """The answer to one request: `{shape, data, pooling?}`. Raises AiError 5006, 5007 or 5021."""
        model = EMBEDDING_MODELS.get(name)
        if model is None:
            raise inputs.no_such_model(name)
        wanted = inputs.parse(model, raw)
        vectors = self._embed(model, wanted.texts, wanted)
        if wanted.query is not None:
            return {"response": self._ranked(model, vectors, wanted.query, wanted)}
        answer: JsonObject = {"shape": list(vectors.shape), wanted.result_key: _plain(vectors)}
        if wanted.pooling is not None:
            answer["pooling"] = wanted.pooling
        return answer

    def _embed(self, model: EmbeddingModel, texts: Sequence[str], wanted: Inputs) -> FloatArray:
        instruction, bare = _instructed(model, texts, wanted.instruction)
        tokens = self._fitting(model, self._words.tokens(bare), wanted.truncate)
        vectors = self._words.embed(tokens)
        if instruction:
            lean = self._words.embed(self._words.tokens([instruction]))
            prefixed = [one != text for one, text in zip(bare, texts, strict=True)]
            asked = np.array(prefixed, np.float32) if wanted.instruction is None else np.float32(1)
            vectors = unit(vectors + _INSTRUCTION_WEIGHT * np.reshape(asked, (-1, 1)) * lean)
        # Vectors of two poolings are as unrelated as those of two models.
        return vectors @ orthonormal_map(f"{model.name}:{wanted.pooling}", model.dims)

    def _fitting(self, model: EmbeddingModel, tokens: list[Tokens], truncate: bool) -> list[Tokens]:
        total = sum(len(ids) for ids in tokens)
        if model.max_request_tokens is not None and total > model.max_request_tokens:
            raise inputs.context_exceeded(total, model.max_request_tokens)
        longest = max(len(ids) for ids in tokens)
        if longest > model.max_input_tokens and not truncate:
            raise inputs.context_exceeded(longest, model.max_input_tokens)
        return [ids[: model.max_input_tokens] for ids in tokens]

    def _ranked(
        self, model: EmbeddingModel, vectors: FloatArray, query: str, wanted: Inputs
    ) -> list[JsonObject]:
        scores = vectors @ self._embed(model, [query], wanted)[0]
        order = np.argsort(-scores, kind="stable")
        return [{"id": int(at), "score": round(float(scores[at]), _DIGITS)} for at in order]


def _instructed(
    model: EmbeddingModel, texts: Sequence[str], given: str | None
) -> tuple[str | None, list[str]]:
    """The instruction, and the texts without it where the model takes it as the start of the text."""
    if given is not None or model.query_key == "queries" or not model.query_instruction:
        return given, list(texts)
    prefix = model.query_instruction
    stripped = (text.removeprefix(prefix) for text in texts)
    return prefix, [bare or text for bare, text in zip(stripped, texts, strict=True)]


def _plain(vectors: FloatArray) -> list[list[float]]:
    rounded: list[list[float]] = np.round(vectors.astype(np.float64), _DIGITS).tolist()
    return rounded
