"""D1, the truth about each document's state: claims, commits, tombstones and `meta`."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag import retries
from rag import statements as sql
from rag.bindings import D1
from rag.errors import Problem, unavailable
from rag.jsonsafe import compact

# How long a write may take: an older claim belongs to nobody any more.
CLAIM_MS = 5 * 60 * 1000
# By then all writes of a claim are visible in Vectorize, whose p99 is 2 minutes (changelog of 2026-06-30).
VISIBLE_MS = CLAIM_MS + 4 * 60 * 1000
# How long writers wait for a sweep that has taken a document; it writes within this time or not at all.
LEASE_MS = 5_000
_CONTESTED = "+"


def now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True)
class Row:
    """A document's state; see the table's columns."""

    id: str
    seq: int
    content_hash: str | None
    pending_hash: str | None
    pending_at: int | None
    indexed_at: int | None
    active: bool
    embed_model: str | None
    schema_rev: str | None
    deleted_at: int | None
    lease_at: int | None

    @property
    def contested(self) -> bool:
        """Whether another write of other content was under way when this one began."""
        return (self.pending_hash or "").startswith(_CONTESTED)

    @property
    def claimed_hash(self) -> str | None:
        """What the last claim wants to write, "" if that is not known."""
        return self.pending_hash.removeprefix(_CONTESTED) if self.pending_hash is not None else None

    def in_flight(self, now: int) -> bool:
        """Whether a write may still be under way."""
        return self.pending_at is not None and self.pending_at >= now - CLAIM_MS

    def visible(self, now: int) -> bool:
        """Whether all that was ever written for this row can be seen in the index by now."""
        last = max(self.pending_at or 0, self.indexed_at or 0, self.deleted_at or 0)
        return last < now - VISIBLE_MS


@dataclass(frozen=True)
class Claim:
    """What to write: a document's id, hash and flag."""

    id: str
    hash: str
    active: bool
    forced: bool


@dataclass(frozen=True)
class Written:
    """What has been written under a claim; `next_*` where the space that takes over has it too."""

    id: str
    seq: int
    hash: str
    active: bool
    next_hash: str | None = None
    next_model: str | None = None


@dataclass(frozen=True)
class Verified:
    """What the index was found to hold: its hash and flag, None where nothing is known to be there."""

    id: str
    seq: int
    hash: str | None
    active: bool | None


async def claim(db: D1, claims: Sequence[Claim], model: str, desired: str) -> dict[str, Row]:
    """Rows of the documents that have to be written, by id; the others are stored as they should be.

    `model` is the fingerprint to write with, `desired` another one that is as good. One round trip.
    """
    now = now_ms()
    calls: list[tuple[Any, ...]] = []
    if plain := [each for each in claims if not each.forced]:
        calls.append((sql.CLAIM, _claims(plain), now, model, desired))
    if forced := [each for each in claims if each.forced]:
        calls.append((sql.CLAIM_FORCED, _claims(forced), now, model))
    return {row.id: row for rows in await run(db, *calls) for row in map(_row, rows)}


def _claims(claims: Iterable[Claim]) -> str:
    return compact([{"id": each.id, "hash": each.hash, "active": int(each.active)} for each in claims])


async def commit(db: D1, written: Sequence[Written], model: str, schema: str) -> set[str]:
    """Ids whose claims held; the others' have been overtaken by another write or a delete."""
    items = [
        {
            "id": each.id,
            "seq": each.seq,
            "hash": each.hash,
            "active": int(each.active),
            "nextHash": each.next_hash,
            "nextModel": each.next_model,
        }
        for each in written
    ]
    (rows,) = await run(db, (sql.COMMIT, compact(items), now_ms(), model, schema))
    return {str(row["id"]) for row in rows}


async def lost(db: D1, ids: Iterable[str]) -> None:
    """Mark documents whose commit lost: not skipped until it has been verified what the index holds."""
    await run(db, (sql.LOST, compact(list(ids)), now_ms()))


async def release(db: D1, rows: Iterable[Row]) -> None:
    """Give up claims under which nothing has been written."""
    items = _seqs(rows)
    await run(db, (sql.RELEASE_NEW, items), (sql.RELEASE, items))


async def tombstone(db: D1, ids: Iterable[str]) -> tuple[list[Row], set[str]]:
    """Rows of the ids, now all marked as deleted, and the ids of those that were documents before."""
    now = now_ms()
    (rows,) = await run(db, (sql.TOMBSTONE, compact(list(dict.fromkeys(ids))), now))
    marked = [_row(row) for row in rows]
    # A new row starts at the time of its insert, and an earlier tombstone keeps its time.
    return marked, {row.id for row in marked if row.seq != now and row.deleted_at == now}


async def drop(db: D1, rows: Iterable[Row], cut: int = 0) -> None:
    """Forget tombstones that have reached the index; those with a claim younger than `cut` stay."""
    await run(db, (sql.DROP, _seqs(rows), cut))


async def rows(db: D1, ids: Iterable[str]) -> dict[str, Row]:
    """Rows of these ids, tombstones too."""
    (found,) = await run(db, (sql.ROWS, compact(list(ids))))
    return {row.id: row for row in map(_row, found)}


async def page(db: D1, after: str, most: int) -> list[Row]:
    """Documents in the order of their ids, without tombstones."""
    (found,) = await run(db, (sql.LIST_ROWS, after, most))
    return [_row(row) for row in found]


async def lease(db: D1, rows: Iterable[Row], model: str) -> dict[str, Row]:
    """Rows, as they are now, of those documents that nobody has touched since: theirs for `LEASE_MS`."""
    now = now_ms()
    (found,) = await run(db, (sql.LEASE, _seqs(rows), now, model, now - LEASE_MS))
    return {row.id: row for row in map(_row, found)}


async def verified(db: D1, found: Iterable[Verified]) -> set[str]:
    """Write down what the index holds; ids that changed meanwhile don't come back."""
    items = [
        {"id": each.id, "seq": each.seq, "hash": each.hash, "active": _flag(each.active)} for each in found
    ]
    (rows,) = await run(db, (sql.VERIFIED, compact(items)))
    return {str(row["id"]) for row in rows}


def _flag(active: bool | None) -> int | None:
    return None if active is None else int(active)


async def failed(db: D1, rows: Iterable[Row], model: str) -> None:
    """Mark documents that `model` never takes."""
    await run(db, (sql.FAILED, _seqs(rows), model))


async def sweep_page(db: D1, after: str, model: str, schema: str, cut: int, most: int) -> list[Row]:
    """The next rows, by id, that are abandoned since `cut` or whose vector is of another making."""
    (found,) = await run(db, (sql.SWEEP_PAGE, after, model, schema, cut, most))
    return [_row(row) for row in found]


async def progress(db: D1, model: str, schema: str) -> tuple[int, int]:
    """All documents, and how many are not of this model and these metadata indexes yet."""
    ((row,),) = await run(db, (sql.PROGRESS, model, schema))
    return int(row["total"]), int(row["behind"])


async def put(db: D1, key: str, value: str) -> None:
    await run(db, (sql.META_PUT, key, value))


async def begin(db: D1, key: str, value: str) -> bool:
    """Set what has no value yet; whether this call did."""
    (rows,) = await run(db, (sql.META_BEGIN, key, value))
    return bool(rows)


async def swap(db: D1, key: str, old: str, new: str) -> bool:
    """Compare and set; whether the value was still the old one."""
    (rows,) = await run(db, (sql.META_SWAP, key, old, new))
    return bool(rows)


async def add(db: D1, key: str, amount: int) -> None:
    """Add to a counter."""
    await run(db, (sql.META_ADD, key, amount))


async def counts(db: D1) -> list[tuple[str | None, int, int]]:
    """By the fingerprint of their vectors: documents, and how many of them are not settled."""
    (found,) = await run(db, (sql.COUNTS,))
    return [(row["embed_model"], int(row["documents"]), int(row["pending"])) for row in found]


async def recent(db: D1, most: int) -> list[Row]:
    """The documents that were written last, newest first."""
    (found,) = await run(db, (sql.RECENT_ROWS, most))
    return [_row(row) for row in found]


def _seqs(rows: Iterable[Row]) -> str:
    return compact([{"id": row.id, "seq": row.seq} for row in rows])


def _row(found: Mapping[str, Any]) -> Row:
    integers = ("seq", "pending_at", "indexed_at", "deleted_at", "lease_at")
    values = {name: found[name] for name in Row.__dataclass_fields__}
    values.update({name: int(values[name]) for name in integers if values[name] is not None})
    return Row(**{**values, "active": bool(values["active"])})


async def run(db: D1, *calls: tuple[Any, ...]) -> list[list[Mapping[str, Any]]]:
    """Rows of each `(statement, *parameters)`; one round trip, and one transaction if there are several.

    Every statement of the Worker can be repeated, so a lost connection is tried again. Raises Problem.
    """
    statements = [db.prepare(text).bind(*params) if params else db.prepare(text) for text, *params in calls]

    async def attempt() -> list[Mapping[str, Any]]:
        return [await statements[0].all()] if len(statements) == 1 else list(await db.batch(statements))

    answers = await retries.call("d1", attempt, refusal=_refusal, failure=_failure)
    return [list(answer["results"]) for answer in answers]


def _refusal(error: Exception) -> Problem | None:
    text = str(error)
    broken = any(
        each in text for each in ("SQLITE_ERROR", "SQLITE_CONSTRAINT", "D1_TYPE_ERROR", "too many SQL")
    )
    return _failure(error) if broken else None


def _failure(error: Exception) -> Problem:
    return unavailable(f"D1 failed: {str(error)[:300]}", retry_after=5)
