"""Vectorize: reads, writes and searches within the limits of each operation."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag import retries
from rag.bindings import Vectorize
from rag.errors import Problem, dims_mismatch, invalid_value, unavailable, upstream
from rag.jsonsafe import options, size
from rag.settings import DELETE_IDS, FILTER_BYTES, GET_IDS, MAX_TOP_K, TAG_PROPERTIES, UPSERT_MAX

_CODE = re.compile(r"\bcode\s*[=:]?\s*(\d{4,5})\b")
_WRONG_DIMS = 40006
# What no other try changes: the index is gone, or the request is over a limit or malformed.
_PERMANENT = frozenset(
    {3000, 3001, 3005, 40005, _WRONG_DIMS, 40007, 40008, 40009, 40016, 40023, 40025, 40026}
)
# Metrics of which a smaller number is a better match.
_SMALLER_IS_BETTER = frozenset({"euclidean", "dot-product"})


@dataclass(frozen=True)
class Record:
    """A stored vector with its metadata, or a match of a search with its score."""

    id: str
    metadata: dict[str, Any]
    values: list[float]
    score: float = 0.0

    @property
    def content_hash(self) -> str | None:
        return self.metadata.get("contentHash")


async def get(index: Vectorize, ids: Iterable[str]) -> dict[str, Record]:
    """The vectors that can be seen at the moment, by id; what has just been written may be missing or old."""
    chunks = _chunks(list(dict.fromkeys(ids)), GET_IDS)
    answers = await asyncio.gather(*(_call(index.getByIds, chunk) for chunk in chunks))
    records = [_record(each) for answer in answers for each in answer]
    return {record.id: record for record in records}


async def upsert(index: Vectorize, vectors: Sequence[Mapping[str, Any]]) -> None:
    """Write `{id, values, metadata}` as a whole; visible some time later."""
    for chunk in _chunks([dict(vector) for vector in vectors], UPSERT_MAX):
        await _call(index.upsert, chunk)


async def delete(index: Vectorize, ids: Iterable[str]) -> None:
    """Delete by id, whether or not there is a vector; safe to repeat."""
    chunks = _chunks(list(dict.fromkeys(ids)), DELETE_IDS)
    await asyncio.gather(*(_call(index.deleteByIds, chunk) for chunk in chunks))


def filters(conditions: Mapping[str, Any], tags: Sequence[str], active: bool | None) -> list[dict[str, Any]]:
    """The filters of a search, one per query: with tags one for each property that a tag can be in.

    Raises Problem (422) for more than Vectorize takes (2,048 bytes of compact JSON).
    """
    base = dict(conditions)
    if active is not None:
        base["active"] = {"$eq": active}
    each = [{**base, slot: {"$in": list(tags)}} for slot in TAG_PROPERTIES] if tags else [base]
    for one in each:
        if (actual := size(one)) >= FILTER_BYTES:
            message = f"filter and tags take {actual} bytes as JSON; fewer than {FILTER_BYTES} are accepted"
            raise invalid_value(message, field="filter", limit=FILTER_BYTES - 1, actual=actual)
    return each


def clamp_top_k(wanted: int) -> int:
    """`wanted` within what this service and Vectorize (50 with metadata) answer."""
    return max(1, min(wanted, MAX_TOP_K))


async def query(
    index: Vectorize, vector: list[float], top_k: int, any_of: Sequence[Mapping[str, Any]], metric: str
) -> list[Record]:
    """The best `top_k` that satisfy any of the filters, best first; one query per filter, side by side."""
    most = clamp_top_k(top_k)
    answers = await asyncio.gather(*(_query(index, vector, most, each) for each in any_of))
    best = {record.id: record for answer in answers for record in answer}
    falling = -1 if metric not in _SMALLER_IS_BETTER else 1
    return sorted(best.values(), key=lambda record: (falling * record.score, record.id))[:most]


async def _query(index: Vectorize, vector: list[float], most: int, where: Mapping[str, Any]) -> list[Record]:
    asked = options(topK=most, returnMetadata="all", returnValues=False, filter=dict(where) or None)
    answer = await _call(index.query, vector, asked)
    return [_record(match) for match in answer["matches"]]


def _record(found: Mapping[str, Any]) -> Record:
    return Record(
        id=str(found["id"]),
        metadata=dict(found.get("metadata") or {}),
        values=[float(value) for value in found.get("values") or ()],
        score=float(found.get("score") or 0.0),
    )


def _chunks(items: list[Any], most: int) -> list[list[Any]]:
    return [items[at : at + most] for at in range(0, len(items), most)]


async def _call(operation: Any, *arguments: Any) -> Any:
    return await retries.call("vectorize", lambda: operation(*arguments), refusal=_refusal, failure=_failure)


def _refusal(error: Exception) -> Problem | None:
    match = _CODE.search(str(error))
    code = int(match[1]) if match else None
    if code == _WRONG_DIMS:
        return dims_mismatch(f"Vectorize refused a vector: {str(error)[:300]}")
    return upstream("Vectorize", error) if code in _PERMANENT else None


def _failure(error: Exception) -> Problem:
    return unavailable(f"Vectorize failed: {str(error)[:300]}", retry_after=5)
