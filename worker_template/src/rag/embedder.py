"""Workers AI: texts to vectors, in batches that the model takes."""

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rag import retries
from rag.bindings import Ai
from rag.errors import Problem, invalid_value, unavailable, upstream
from rag.jsonsafe import plain
from rag.models import Model

Vector = list[float]

# developers.cloudflare.com/workers-ai/platform/errors, and what models themselves answer to a bad input.
_REJECTED = frozenset({3003, 3006, 5004, 5006, 5021, 5035})
_FORBIDDEN = frozenset({3023, 3039, 3041, 3042, 5005, 5007, 5016, 5018, 5019})
_LIMITED = frozenset({3036})
_CODE = re.compile(r"\b([3-8]\d{3})\s*:")
_TOO_LONG = re.compile(
    r"context length|context window|too long|maximum.{0,20}(tokens|length)|max.{0,10}tokens", re.I
)
# A token for two letters and one for every other sign: more than the tokenizers of these models make.
_TOKENS = re.compile(r"[A-Za-z0-9]{1,2}|[^\sA-Za-z0-9]")


class Rejected(Exception):
    """The model does not take this input; another try changes nothing, a smaller one may."""


def estimated_tokens(text: str) -> int:
    """Tokens of `text`, rather too many: a request is refused as a whole for what it has too many."""
    return len(_TOKENS.findall(text)) + 2


def batches(texts: Sequence[str], model: Model) -> list[list[int]]:
    """Positions of `texts` grouped into requests within the model's limits on texts and tokens."""
    groups: list[list[int]] = []
    used = 0
    for position, text in enumerate(texts):
        tokens = estimated_tokens(text)
        full = bool(groups) and len(groups[-1]) >= model.max_batch
        heavy = model.max_request_tokens is not None and used + tokens > model.max_request_tokens
        if not groups or full or heavy:
            groups.append([])
            used = 0
        groups[-1].append(position)
        used += tokens
    return groups


async def embed_documents(ai: Ai, model: Model, texts: Sequence[str]) -> list[Vector | Problem]:
    """A vector for each text, or its problem: 422 if the model never takes it, 5xx if AI failed."""
    groups = batches(texts, model)
    done = await asyncio.gather(*(_embed_group(ai, model, [texts[at] for at in group]) for group in groups))
    return [result for group in done for result in group]


async def embed_query(ai: Ai, model: Model, text: str) -> Vector:
    """The vector to search with. Raises Problem."""
    inputs: dict[str, Any] = {model.query_key: [text]}
    if model.query_instruction and model.query_key == "queries":
        inputs["instruction"] = model.query_instruction
    elif model.query_instruction:
        inputs[model.query_key] = [model.query_instruction + text]
    try:
        return (await _run(ai, model, inputs, 1))[0]
    except Rejected as error:
        raise invalid_value(f"the model does not take this query: {error}", field="query") from error


async def _embed_group(ai: Ai, model: Model, texts: list[str]) -> list[Vector | Problem]:
    try:
        return list(await _run(ai, model, {model.document_key: texts}, len(texts)))
    except Rejected as error:
        if len(texts) == 1:
            return [invalid_value(f"{model.name} does not take this document: {error}", field="body")]
        # One text spoils the whole request, and the model does not say which.
        half = len(texts) // 2
        return [*await _embed_group(ai, model, texts[:half]), *await _embed_group(ai, model, texts[half:])]
    except Problem as problem:
        return [problem] * len(texts)


async def _run(ai: Ai, model: Model, inputs: dict[str, Any], count: int) -> list[Vector]:
    if model.pooling is not None:
        inputs = {**inputs, "pooling": model.pooling}
    answer = await retries.call(
        "ai", lambda: ai.run(model.name, plain(inputs)), refusal=_refusal, failure=_failure
    )
    return _vectors(answer, model, count)


def _refusal(error: Exception) -> Exception | None:
    text = str(error)
    code = int(match[1]) if (match := _CODE.search(text)) else None
    if code in _REJECTED or (code is None and _TOO_LONG.search(text)):
        return Rejected(text[:300])
    if code in _LIMITED:
        return unavailable(f"Workers AI has no allowance left: {text[:300]}", retry_after=3600)
    return upstream("Workers AI", error) if code in _FORBIDDEN else None


def _failure(error: Exception) -> Exception:
    return unavailable(f"Workers AI failed: {str(error)[:300]}", retry_after=5)


def _vectors(answer: Mapping[str, Any], model: Model, count: int) -> list[Vector]:
    """The vectors of an answer in either of its two forms, checked: a wrong vector must never be stored."""
    rows = answer.get("data") or answer.get("response") or []
    sizes = sorted({len(row) for row in rows})
    if len(rows) != count or sizes != [model.dims]:
        shape = f"{len(rows)} vectors of {'/'.join(map(str, sizes)) or 0} dimensions"
        raise upstream("Workers AI", f"{model.name} answered {shape}, not {count} of {model.dims}")
    vectors = [[float(value) for value in row] for row in rows]
    if not all(math.isfinite(value) for vector in vectors for value in vector):
        raise upstream("Workers AI", f"{model.name} answered a vector with NaN or infinite values")
    return vectors
