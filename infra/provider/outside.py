"""What somebody changed behind Pulumi's back, and what D1 has to know once it is made again.

A vector is in a metadata index only if it was written after that was made, and content lives in the index
only: both are lost silently, unless the rows of D1 say so. Every step here can be repeated after a kill.
"""

from __future__ import annotations

import json
import time
from typing import Any

from infra.provider import d1, ending, vectorize
from infra.provider.base import Call
from infra.replacement import Side, Spaces

_PAGE = 2000
_LIST = 1000
_MARK = "indexing:"
_COLUMNS: dict[Side, tuple[str, str, str]] = {
    "main": ("content_hash", "embed_model", "schema_rev"),
    "next": ("next_hash", "next_model", "next_rev"),
}
_PUT = "INSERT INTO meta(key, value) VALUES (?, ?) ON CONFLICT(key) DO UPDATE SET value = excluded.value"
# What was upserted before the metadata index and is committed after this has to lose: its seq is another one.
REWRITE = (
    "UPDATE documents SET schema_rev = NULL, next_rev = NULL, "
    "seq = seq + (pending_at IS NOT NULL OR lease_at IS NOT NULL) WHERE id IN (SELECT id FROM documents "
    "WHERE id > ? AND (schema_rev IS NOT NULL OR next_rev IS NOT NULL) "
    f"ORDER BY id LIMIT {_PAGE}) RETURNING id"
)
# Rows as of an abandoned write, which the sweep verifies: the vector's hash becomes the row's.
_ROWS = (
    "INSERT OR IGNORE INTO documents(id, seq, active, pending_hash, pending_at) "
    "SELECT value, ?, 1, '+', 1 FROM json_each(?)"
)


class _Data:
    """A stack's database, by name, once a Worker has begun to use it."""

    def __init__(self, database: str, meta: dict[str, str]) -> None:
        self.database, self.meta = database, meta

    @classmethod
    async def read(cls, call: Call, name: str | None) -> _Data | None:
        database = await d1.find_database(call, name) if name else None
        meta = await _meta(call, database) if database else None
        return cls(database, meta) if database and meta else None

    def side(self, generation: int) -> Side | None:
        """The columns that say what the index of this generation holds."""
        spaces = Spaces.of(self.meta)
        if spaces is None:
            return "main"  # no Worker has begun yet: the first space is always this one
        space = spaces.find(generation)
        return space.side if space else None


async def _meta(call: Call, database: str) -> dict[str, str] | None:
    """`meta` of a database that has the table of documents too."""
    meta = await d1.meta(call, database)
    return meta if meta and await _has_documents(call, database) else None


async def _has_documents(call: Call, database: str) -> bool:
    sql = "SELECT name FROM sqlite_master WHERE name = 'documents'"
    return bool(await d1.query(call, database, "read the database's tables", sql))


async def documents(call: Call, database: str) -> int | None:
    """How many live documents the database with this id knows; None where it is gone or has no tables."""
    if not await _meta(call, database):
        return None
    sql = "SELECT COUNT(*) AS n FROM documents WHERE deleted_at IS NULL"
    rows = await d1.query(call, database, "count the documents", sql)
    return int(rows[0]["n"])


async def lost_documents(call: Call, database: str | None, generation: int) -> int:
    """How many documents had their content in the missing index of this generation, and nowhere else."""
    data = await _Data.read(call, database)
    side = data.side(generation) if data else None
    if data is None or side is None:
        return 0
    other: Side = "next" if side == "main" else "main"
    own, there = _COLUMNS[side][0], _COLUMNS[other][0]
    # What is being written, or is to be verified, was in no other index either.
    where = f"deleted_at IS NULL AND {there} IS NULL AND ({own} IS NOT NULL OR pending_at IS NOT NULL)"
    sql = f"SELECT COUNT(*) AS n FROM documents WHERE {where}"
    rows = await d1.query(call, data.database, "count the documents of a missing index", sql)
    return int(rows[0]["n"])


async def forget_index(call: Call, database: str | None, generation: int) -> None:
    """Say in D1 that the index of this generation holds nothing: no ingest is skipped for what it held."""
    data = await _Data.read(call, database)
    side = data.side(generation) if data else None
    if data is None or side is None:
        return
    own, model, revision = _COLUMNS[side]
    page = f"SELECT id FROM documents WHERE id > ? AND {own} IS NOT NULL ORDER BY id LIMIT {_PAGE}"
    nothing = f"{own} = NULL, {model} = NULL, {revision} = NULL"
    sql = f"UPDATE documents SET {nothing} WHERE id IN ({page}) RETURNING id"
    done = await _in_pages(call, data.database, "forget what a missing index held", sql)
    if done:
        await call.warn(f"{ending.documents(done)} of generation {generation} have no vector any more")


async def _in_pages(call: Call, database: str, doing: str, sql: str) -> int:
    """Run a statement that takes the id to go on after and returns those that it has changed."""
    after, done = "", 0
    while rows := await d1.query(call, database, doing, sql, after):
        after, done = max(str(row["id"]) for row in rows), done + len(rows)
        await call.progress(f"{doing}: {done:,}")
    return done


async def begin_indexing(call: Call, database: str | None, key: str, kind: str) -> None:
    """Note that a metadata index is being made over vectors; `key` is `<index>/<property>`."""
    if data := await _Data.read(call, database):
        await d1.query(call, data.database, "note a missing metadata index", _PUT, _MARK + key, "1")
    elif database:
        index, _, name = key.partition("/")
        call.account.refilled.setdefault(index, set()).add(f"{name}:{kind}")


async def end_indexing(call: Call, database: str | None, key: str, kind: str) -> None:
    """It is in effect: what was noted for it becomes work for the sweep, which writes every vector again.

    Until that is done, a filter on the property is refused.
    """
    data = await _Data.read(call, database)
    if data is None or _MARK + key not in data.meta:
        return
    doing = f"have every vector written into the metadata index {key}"
    await _in_pages(call, data.database, doing, REWRITE)
    await _unready(call, data.database, f"{key.partition('/')[2]}:{kind}")
    await d1.query(call, data.database, doing, "DELETE FROM meta WHERE key = ?", _MARK + key)
    await call.warn(
        f"metadata index {key} was missing: every vector is written again, without embedding; until that is "
        "done, searches that filter by it are refused"
    )


async def _unready(call: Call, database: str, entry: str) -> None:
    """Compare and set: Workers write this value too."""
    doing = "note that a metadata index does not hold every vector"
    while (old := (await d1.meta(call, database) or {}).get("schema")) is not None:
        schema: dict[str, Any] = json.loads(old)
        schema["ready"] = [each for each in schema["ready"] if each != entry]
        schema["again"] = sorted({*schema.get("again", ()), entry})
        sql = "UPDATE meta SET value = ? WHERE key = 'schema' AND value = ? RETURNING key"
        if await d1.query(call, database, doing, sql, json.dumps(schema, separators=(",", ":")), old):
            return


async def rows_from_vectors(call: Call, database: str, index: str, schema: str | None) -> int:
    """Give each vector that D1 knows nothing of a row, as one that is to be verified; how many there were.

    The content is in the vector, so a database that was lost is made again from the index. What can't be made
    again are API keys.
    """
    count = await vectorize.vector_count(call, index) or 0
    if not count or not await _has_documents(call, database) or count <= await _count(call, database):
        return 0
    before, cursor = await _count(call, database), None
    doing = f"make rows for the vectors of {index}"
    while True:
        page = await vectorize.list_ids(call, index, count=_LIST, cursor=cursor)
        await d1.query(call, database, doing, _ROWS, str(int(time.time() * 1000)), json.dumps(page.ids))
        await call.progress(doing)
        if (cursor := page.cursor) is None:
            break
    made = await _count(call, database) - before
    again = call.account.refilled.pop(index, None)
    if again and schema:
        held = {
            f"{name}:{kind}" for name, kind in (await vectorize.metadata_indexes(call, index) or {}).items()
        }
        known = {"revision": schema, "ready": sorted(held - again), "again": sorted(again)}
        await d1.query(call, database, doing, _PUT, "schema", json.dumps(known, separators=(",", ":")))
    return made


async def _count(call: Call, database: str) -> int:
    rows = await d1.query(call, database, "count the documents", "SELECT COUNT(*) AS n FROM documents")
    return int(rows[0]["n"])
