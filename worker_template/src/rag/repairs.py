"""Documents of which D1 and Vectorize may say different things: noticed, verified later, counted."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rag import messages, store, vectors
from rag.bindings import Bindings
from rag.errors import Problem
from rag.logs import log
from rag.model_state import State
from rag.rows import CLAIM_MS, Row, Verified, now_ms
from rag.spaces import Space

# Not before claims of the same moment are over and their writes can be seen.
VERIFY_DELAY_SECONDS = CLAIM_MS // 1000 + 30


async def lost(b: Bindings, state: State, ids: Sequence[str]) -> None:
    """The commit of these ids came too late: which of the writes is in the index is to be found out."""
    log("warn", "a commit was overtaken by another write", documents=len(ids))
    await store.lost(b.db, ids, state.serving)
    await ask(b, ids)


async def ask(b: Bindings, ids: Sequence[str]) -> None:
    """Have these ids verified through the queue; the mark in D1 makes sure of it where this fails."""
    if b.queue is None:
        return
    try:
        await messages.send(b.queue, messages.work("verify", ids, VERIFY_DELAY_SECONDS))
    except Exception as error:  # noqa: BLE001 - the runtime throws JavaScript errors of any kind
        # The write itself has succeeded, and the sweep finds the mark.
        log("warn", "a verification could not be queued", error=str(error)[:200])


@dataclass
class _Findings:
    """What to do: note what the index holds (None: nothing), delete once more, look again later."""

    holds: dict[str, vectors.Record | None] = field(default_factory=dict)
    delete: list[str] = field(default_factory=list)
    later: set[str] = field(default_factory=set)


async def verify(b: Bindings, state: State, ids: Sequence[str]) -> set[str]:
    """Make D1 say what the index holds; ids that can't be told yet are returned.

    A vector that is missing or carries an unexpected hash may just not be visible yet. Once it would be, it
    is taken as it is: the vector's hash becomes the row's, or the row's hash is cleared and the next ingest
    writes again. The serving space is asked, and for what it lacks the other one; the sweep then copies to
    the other what the serving one holds. Raises Problem where a store fails.
    """
    ids = list(dict.fromkeys(ids))
    rows = await store.rows(b.db, ids, state.serving)
    other = state.other
    elsewhere = {doc_id for doc_id, row in rows.items() if other and row.only_elsewhere}
    later = await _verify_in(b, state, state.serving, [each for each in ids if each not in elsewhere], rows)
    if other and elsewhere:
        flipped = {doc_id: rows[doc_id].from_other_side() for doc_id in elsewhere}
        later |= await _verify_in(b, state, other, sorted(elsewhere), flipped)
    return later


async def _verify_in(
    b: Bindings, state: State, space: Space, ids: Sequence[str], rows: dict[str, Row]
) -> set[str]:
    found = await vectors.get(b.bound(space.generation), ids)
    findings = _Findings()
    for doc_id in ids:
        _judge(doc_id, rows.get(doc_id), found.get(doc_id), findings)
    await _settle(b, space, rows, findings.holds)
    if findings.delete:
        await _delete(b, state, findings.delete)
    return findings.later


def _judge(doc_id: str, row: Row | None, record: vectors.Record | None, findings: _Findings) -> None:
    now, hash_found = now_ms(), record.content_hash if record else None
    if row is None:
        # Written by someone who did not know of the delete.
        if record is not None:
            findings.delete.append(doc_id)
    elif row.in_flight(now):
        findings.later.add(doc_id)
    elif row.claimed_hash and hash_found == row.claimed_hash:
        findings.holds[doc_id] = record
    elif row.deleted_at is not None:
        findings.delete.append(doc_id)
    elif row.pending_at is None and hash_found == row.content_hash:
        return
    elif not row.visible(now):
        findings.later.add(doc_id)
    elif record is None and row.indexed_at is None:
        # Its first write never came so far: there is no such document.
        findings.delete.append(doc_id)
    else:
        findings.holds[doc_id] = record


async def _settle(
    b: Bindings, space: Space, rows: dict[str, Row], holds: dict[str, vectors.Record | None]
) -> None:
    if not holds:
        return
    settled = [
        Verified(
            rows[doc_id].id,
            rows[doc_id].seq,
            record.content_hash if record else None,
            bool(record.metadata.get("active", True)) if record else None,
        )
        for doc_id, record in holds.items()
    ]
    held = await store.verified(b.db, settled, space)
    changed = [each.id for each in settled if each.id in held and each.hash != rows[each.id].content_hash]
    if changed:
        await count(b, changed)


async def count(b: Bindings, ids: Sequence[str]) -> None:
    """Log and count documents of which D1 had to be put right."""
    log("warn", "repaired what was known about documents", ids=list(ids))
    await store.add(b.db, "repairs", len(ids))


async def _delete(b: Bindings, state: State, ids: Iterable[str]) -> None:
    """Finish deletes: what arrived in the index after the first try goes too."""
    rows, _ = await store.tombstone(b.db, ids, state.serving)
    reached = await delete_vectors(b, state, [row.id for row in rows])
    await store.drop(b.db, rows, reached, cut=now_ms() - CLAIM_MS)


async def delete_vectors(b: Bindings, state: State, ids: Sequence[str]) -> list[Space]:
    """Delete from every space; those that it reached. Raises Problem where the serving one fails."""
    tried = [vectors.delete(b.bound(space.generation), ids) for space in state.spaces]
    reached: list[Space] = []
    for space, failure in zip(
        state.spaces, await asyncio.gather(*tried, return_exceptions=True), strict=True
    ):
        if failure is None:
            reached.append(space)
        elif space == state.serving or not isinstance(failure, Problem):
            raise failure
    return reached
