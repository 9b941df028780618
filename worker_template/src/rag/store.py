"""D1, the truth about each document's state: claims, commits, tombstones and `meta`.

A row has two sides, one for each space that a replacement has; functions that take a space read and write
the row as seen from it.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rag import retries
from rag import statements as sql
from rag.bindings import D1
from rag.errors import Problem, unavailable
from rag.jsonsafe import compact
from rag.spaces import UNUSED, Side, Space

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
    """A document's state as seen from one space: `next_*` is what the other one holds of it."""

    id: str
    seq: int
    content_hash: str | None
    pending_hash: str | None
    pending_at: int | None
    indexed_at: int | None
    active: bool
    embed_model: str | None
    schema_rev: str | None
    next_hash: str | None
    next_model: str | None
    next_rev: str | None
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

    @property
    def only_elsewhere(self) -> bool:
        """Whether nothing is known here, nothing is under way, and the other space holds the document."""
        settled = self.pending_at is None and self.deleted_at is None
        return settled and self.content_hash is None and self.next_hash is not None

    def from_other_side(self) -> "Row":
        """The same row as seen from the other space."""
        return replace(
            self,
            content_hash=self.next_hash,
            embed_model=self.next_model,
            schema_rev=self.next_rev,
            next_hash=self.content_hash,
            next_model=self.embed_model,
            next_rev=self.schema_rev,
        )

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
    """What has been written under a claim; `next_*` is what the other space has of it then."""

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


@dataclass(frozen=True)
class Progress:
    """Of all documents: to be made anew here, never taken by the model, kept in the other space only."""

    total: int
    behind: int
    failed: int
    stranded: int


def _for(name: str, side: Side) -> str:
    """The statement for the columns of a side."""
    text: str = getattr(sql, name if side == "main" else f"{name}_NEXT")
    return text


async def claim(db: D1, claims: Sequence[Claim], space: Space, desired: str) -> dict[str, Row]:
    """Rows of the documents that have to be written, by id; the others are stored as they should be.

    `desired` is another mark than the space's that is as good. One round trip.
    """
    now = now_ms()
    calls: list[tuple[Any, ...]] = []
    if plain := [each for each in claims if not each.forced]:
        calls.append((_for("CLAIM", space.side), _claims(plain), now, space.mark, desired))
    if forced := [each for each in claims if each.forced]:
        calls.append((_for("CLAIM_FORCED", space.side), _claims(forced), now, space.mark))
    return {row.id: row for found in await run(db, *calls) for row in _rows(found, space)}


def _claims(claims: Iterable[Claim]) -> str:
    return compact([{"id": each.id, "hash": each.hash, "active": int(each.active)} for each in claims])


async def commit(
    db: D1, written: Sequence[Written], space: Space, other: Space | None, schema: str
) -> set[str]:
    """Ids whose claims held; the others' have been overtaken by another write, a delete or another space."""
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
    identities = (space.id, other.id if other else UNUSED)
    call = (_for("COMMIT", space.side), compact(items), now_ms(), space.mark, schema, *identities)
    return await _ids(db, call)


async def rewritten(db: D1, written: Sequence[Written], space: Space, mark: str, schema: str) -> set[str]:
    """Ids of which one space holds the stored content again; the others have been overtaken."""
    items = compact([{"id": each.id, "seq": each.seq, "hash": each.hash} for each in written])
    return await _ids(db, (_for("REWRITTEN", space.side), items, now_ms(), mark, schema, space.id))


async def lost(db: D1, ids: Iterable[str], space: Space) -> None:
    """Mark documents whose commit lost: not skipped until it has been verified what the index holds."""
    await run(db, (_for("LOST", space.side), compact(list(ids)), now_ms()))


async def release(db: D1, rows: Iterable[Row]) -> None:
    """Give up claims under which nothing has been written."""
    items = _seqs(rows)
    await run(db, (sql.RELEASE_NEW, items), (sql.RELEASE, items))


async def tombstone(db: D1, ids: Iterable[str], space: Space) -> tuple[list[Row], set[str]]:
    """Rows of the ids, now all marked as deleted, and the ids of those that were documents before."""
    now = now_ms()
    (found,) = await run(db, (sql.TOMBSTONE, compact(list(dict.fromkeys(ids))), now))
    marked = _rows(found, space)
    # A new row starts at the time of its insert, and an earlier tombstone keeps its time.
    return marked, {row.id for row in marked if row.seq != now and row.deleted_at == now}


async def drop(db: D1, rows: Iterable[Row], reached: Iterable[Space], cut: int = 0) -> None:
    """Forget tombstones, unless there is a space that was not `reached`; a claim younger than `cut` stays."""
    await run(db, (sql.DROP, _seqs(rows), cut, compact([space.id for space in reached])))


async def rows(db: D1, ids: Iterable[str], space: Space) -> dict[str, Row]:
    """Rows of these ids, tombstones too."""
    (found,) = await run(db, (sql.ROWS, compact(list(ids))))
    return {row.id: row for row in _rows(found, space)}


async def page(db: D1, after: str, most: int, space: Space) -> list[Row]:
    """Documents in the order of their ids, without tombstones."""
    (found,) = await run(db, (sql.LIST_ROWS, after, most))
    return _rows(found, space)


async def lease(db: D1, rows: Iterable[Row], space: Space, mark: str) -> dict[str, Row]:
    """Rows, as they are now, of those documents that nobody has touched since: theirs for `LEASE_MS`."""
    now = now_ms()
    (found,) = await run(db, (_for("LEASE", space.side), _seqs(rows), now, mark, now - LEASE_MS))
    return {row.id: row for row in _rows(found, space)}


async def verified(db: D1, found: Iterable[Verified], space: Space) -> set[str]:
    """Write down what the index holds; ids that changed meanwhile don't come back."""
    items = [
        {"id": each.id, "seq": each.seq, "hash": each.hash, "active": _flag(each.active)} for each in found
    ]
    return await _ids(db, (_for("VERIFIED", space.side), compact(items), space.id))


def _flag(active: bool | None) -> int | None:
    return None if active is None else int(active)


async def failed(db: D1, rows: Iterable[Row], space: Space) -> None:
    """Mark documents that the space's model never takes."""
    await run(db, (_for("FAILED", space.side), _seqs(rows), space.mark, space.id))


async def sweep_page(
    db: D1, after: str, space: Space, other: Space | None, schema: str, cut: int, most: int
) -> list[Row]:
    """The next rows, by id, that are abandoned since `cut` or lack a vector of the wanted making."""
    marks = (space.mark, other.mark if other else "")
    (found,) = await run(db, (_for("SWEEP_PAGE", space.side), after, *marks, schema, cut, most))
    return _rows(found, space)


async def progress(db: D1, space: Space, other: Space | None, schema: str) -> Progress:
    """How much of the documents is in a space as it should be."""
    call = (_for("PROGRESS", space.side), space.mark, other.mark if other else "", schema)
    ((row,),) = await run(db, call)
    return Progress(**{name: int(row[name]) for name in Progress.__dataclass_fields__})


async def cut_over(db: D1, old: str, new: str, space: Space, schema: str) -> bool:
    """Compare and set `space` in `meta`, if at that moment nothing is missing in this space."""
    return bool(await _changed(db, (_for("CUT_OVER", space.side), old, new, space.mark, schema)))


async def clear(db: D1, side: Side, after: str, most: int) -> list[str]:
    """Forget what the columns of an unused side hold; the ids of a page, none at the end."""
    found = await _changed(db, (_for("CLEAR", side), after, most))
    return sorted(str(row["id"]) for row in found)


async def discard(db: D1, space: Space, after: str, most: int) -> list[str]:
    """Forget documents that are not in this space; the ids of a page of them, none at the end."""
    found = await _changed(db, (_for("DISCARD", space.side), after, most, space.id))
    return sorted(str(row["id"]) for row in found)


async def put(db: D1, key: str, value: str) -> None:
    await run(db, (sql.META_PUT, key, value))


async def begin(db: D1, key: str, value: str) -> bool:
    """Set what has no value yet; whether this call did."""
    return bool(await _changed(db, (sql.META_BEGIN, key, value)))


async def swap(db: D1, key: str, old: str, new: str) -> bool:
    """Compare and set; whether the value was still the old one."""
    return bool(await _changed(db, (sql.META_SWAP, key, old, new)))


async def add(db: D1, key: str, amount: int) -> None:
    """Add to a counter."""
    await run(db, (sql.META_ADD, key, amount))


async def counts(db: D1, space: Space) -> list[tuple[str | None, int, int]]:
    """By the mark of their vectors: documents, and how many of them are not settled."""
    (found,) = await run(db, (_for("COUNTS", space.side),))
    return [(row["embed_model"], int(row["documents"]), int(row["pending"])) for row in found]


async def recent(db: D1, most: int, space: Space) -> list[Row]:
    """The documents that were written last, newest first."""
    (found,) = await run(db, (sql.RECENT_ROWS, most))
    return _rows(found, space)


def _seqs(rows: Iterable[Row]) -> str:
    return compact([{"id": row.id, "seq": row.seq} for row in rows])


def _rows(found: Iterable[Mapping[str, Any]], space: Space) -> list[Row]:
    seen = [_row(each) for each in found]
    return seen if space.side == "main" else [row.from_other_side() for row in seen]


def _row(found: Mapping[str, Any]) -> Row:
    integers = ("seq", "pending_at", "indexed_at", "deleted_at", "lease_at")
    values = {name: found[name] for name in Row.__dataclass_fields__}
    values.update({name: int(values[name]) for name in integers if values[name] is not None})
    return Row(**{**values, "active": bool(values["active"])})


async def _ids(db: D1, call: tuple[Any, ...]) -> set[str]:
    return {str(row["id"]) for row in await _changed(db, call)}


async def _changed(db: D1, call: tuple[Any, ...]) -> list[Mapping[str, Any]]:
    (found,) = await run(db, call)
    return found


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
