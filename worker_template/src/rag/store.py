"""D1, the truth about each document's state: claims, commits, tombstones and `meta`.

A row has two sides, one for each space that a replacement has; functions that take a space read and write
the row as seen from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rag import retries
from rag import statements as sql
from rag.bindings import D1
from rag.errors import Problem, unavailable
from rag.jsonsafe import compact
from rag.rows import LEASE_MS, Claim, Progress, Row, Verified, Written, now_ms
from rag.spaces import UNUSED, Side, Space


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
