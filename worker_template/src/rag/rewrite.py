"""Vectors made again from what they hold: with another model, or unchanged for a new metadata index."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rag import embedder, repairs, store, vectors
from rag.bindings import Bindings
from rag.document import Stored, formatted, stored, vector_metadata
from rag.errors import Problem
from rag.logs import log
from rag.model_state import SCHEMA, State

# Of the time that a writer waits for a sweep, how much may pass before the sweep itself begins to write.
START_WITHIN_MS = store.LEASE_MS * 3 // 5


@dataclass
class Outcome:
    """What became of ids: `later` are to be tried again, `failed` never; all others are as they should be.

    `unseen` are those of `later` whose content ought to be visible in the index for long.
    """

    later: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    failed: dict[str, Problem] = field(default_factory=dict)


@dataclass
class _Work:
    row: store.Row
    record: vectors.Record
    content: Stored
    values: list[float]


async def rewrite(b: Bindings, state: State, ids: Sequence[str]) -> Outcome:
    """Bring these documents to the wanted model and metadata indexes. Raises Problem where a store fails.

    Content is taken from the index, and only while it is what D1 knows: a vector that is missing or carries
    another hash is left for later, never taken as deleted, and old content never comes after new.
    """
    outcome = Outcome()
    rows = [row for row in (await store.rows(b.db, ids)).values() if _to_do(row, state)]
    if not rows:
        return outcome
    found = await vectors.get(b.vectorize, [row.id for row in rows])
    works: list[_Work] = []
    for row in rows:
        record = found.get(row.id)
        if record is None or record.content_hash != row.content_hash:
            outcome.later.add(row.id)
            if row.visible(store.now_ms()):
                outcome.unseen.add(row.id)
        else:
            values = record.values if _values_stay(row, state) else []
            works.append(_Work(row, record, stored(record.metadata), values))
    works = await _embedded(b, state, works, outcome)
    # What the model does not take keeps its old values and its mark.
    mark = f"!{state.fingerprint}"
    for model in (state.fingerprint, mark):
        same = [work for work in works if (work.row.embed_model == mark) == (model == mark)]
        if same:
            outcome.later |= await _written(b, same, model)
    return outcome


def _to_do(row: store.Row, state: State) -> bool:
    """A write that is under way brings the wanted model itself, or the next pass finds the row."""
    if row.deleted_at is not None or row.pending_at is not None or row.content_hash is None:
        return False
    other = row.embed_model not in (state.fingerprint, f"!{state.fingerprint}")
    return other or row.schema_rev != SCHEMA


def _values_stay(row: store.Row, state: State) -> bool:
    return row.embed_model in (state.fingerprint, f"!{state.fingerprint}") and state.settled


async def _embedded(b: Bindings, state: State, works: list[_Work], outcome: Outcome) -> list[_Work]:
    """The works with values; what the model does not take is marked, so that no sweep tries it again."""
    bare = [work for work in works if not work.values]
    texts = [formatted(work.content) for work in bare]
    refused: list[store.Row] = []
    for work, result in zip(bare, await embedder.embed_documents(b.ai, state.model, texts), strict=True):
        if not isinstance(result, Problem):
            work.values = result
        elif result.transient:
            outcome.later.add(work.row.id)
        else:
            outcome.failed[work.row.id] = result
            refused.append(work.row)
    if refused:
        log("error", "documents that the model does not take", ids=[row.id for row in refused])
        await store.failed(b.db, refused, state.fingerprint)
    return [work for work in works if work.values]


async def _written(b: Bindings, works: list[_Work], model: str) -> set[str]:
    """Write what nobody has touched meanwhile, under a lease; ids of what came too late are returned."""
    leased = await store.lease(b.db, [work.row for work in works], model)
    works = [work for work in works if work.row.id in leased]
    if not works:
        return set()
    taken = next(iter(leased.values())).lease_at or 0
    if store.now_ms() - taken > START_WITHIN_MS:
        return set(leased)
    await vectors.upsert(b.vectorize, [_vector(work, leased[work.row.id]) for work in works])
    written = [
        store.Written(row.id, row.seq, row.content_hash or "", row.active)
        for row in (leased[work.row.id] for work in works)
    ]
    held = await store.commit(b.db, written, model, SCHEMA)
    overtaken = [each.id for each in written if each.id not in held]
    if overtaken:
        await repairs.lost(b, overtaken)
    return set()


def _vector(work: _Work, row: store.Row) -> dict[str, Any]:
    metadata = vector_metadata(work.content, row.content_hash or "", row.active)
    return {"id": row.id, "values": work.values, "metadata": metadata}
