"""What exists under a stack's names, and whether the stack could work with it: `cfrag:index:findExisting`.

Asked only by a stack whose config says `adopt`, for what its state does not know. Everything is checked and
nothing is touched, so that a refusal is one message and leaves all as it was.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from infra.provider import d1, vectorize
from infra.provider.base import Call, Inputs

if TYPE_CHECKING:
    from cloudflare import Cloudflare

TOKEN = "cfrag:index:findExisting"
# Tables of Cloudflare's own and of SQLite's don't count.
TABLES = (
    "SELECT name FROM sqlite_master WHERE type = 'table' "
    "AND name NOT GLOB '_cf_*' AND name NOT GLOB 'sqlite_*'"
)
_LEDGER = "SELECT name FROM d1_migrations"
# Of vectors that somebody else may have written, so many are looked at: what one call takes.
_SAMPLE = 20


class WantedIndex(Inputs):
    """An index and its metadata indexes, types by property."""

    name: str
    dims: int
    metric: str
    metadata: dict[str, str]


class WantedDatabase(Inputs):
    """A database, the migrations that it will get, and the tables that these make."""

    name: str
    migrations: list[str]
    tables: list[str]


class WantedQueue(Inputs):
    """A queue and the only Worker that may consume it; without one it may only be pulled from."""

    name: str
    consumer: str | None = None


class Wanted(Inputs):
    """What a stack's state does not know, by the logical names of the resources."""

    indexes: list[WantedIndex]
    databases: dict[str, WantedDatabase]
    queues: dict[str, WantedQueue]
    workers: dict[str, str]


async def find(call: Call, wanted: Wanted) -> dict[str, Any]:
    """Ids to import by logical name, and a reason for each thing that can't be taken over."""
    ids: dict[str, str] = {}
    refused: list[str] = []
    for index in wanted.indexes:
        refused += [reason async for reason in _index_faults(call, index)]
    for name, database in wanted.databases.items():
        if found := await d1.find_database(call, database.name):
            ids[name] = found
            refused += [reason async for reason in _database_faults(call, found, database)]
    for name, queue in wanted.queues.items():
        if found := await _queue(call, queue.name):
            ids[name] = found
            refused += [reason async for reason in _queue_faults(call, found, queue)]
    for name, worker in wanted.workers.items():
        if found := await _worker(call, worker):
            ids[name] = found
    return {"ids": {name: f"{call.account.id}/{each}" for name, each in ids.items()}, "refused": refused}


async def _index_faults(call: Call, wanted: WantedIndex) -> AsyncIterator[str]:
    found = await vectorize.get_index(call, wanted.name)
    if found is None:
        return
    if (found.dims, found.metric) != (wanted.dims, wanted.metric):
        yield (
            f"index {found.name} has {found.dims} dims and metric {found.metric}, not {wanted.dims} and "
            f"{wanted.metric}: an index can't be converted. Set embedding.model and embedding.metric to what "
            "it was made for, or delete it"
        )
    existing = await vectorize.metadata_indexes(call, wanted.name) or {}
    for name, kind in existing.items():
        if wanted.metadata.get(name, kind) != kind:
            yield (
                f"index {found.name} has a metadata index {name} of type {kind}, not "
                f"{wanted.metadata[name]}: declare the field with that type, or delete the metadata index"
            )
    if foreign := await _foreign_vector(call, wanted.name):
        yield (
            f"index {found.name} holds vectors that this service did not write, such as {foreign!r}: their "
            "metadata has no rawBody and contentHash, so nobody could read or update them. Empty the index, "
            "or choose another cf-rag:rag.name, and ingest the documents"
        )


async def _foreign_vector(call: Call, index: str) -> str | None:
    """The id of a vector without a document, among the first ones."""
    page = await vectorize.list_ids(call, index, count=_SAMPLE)
    for vector in await vectorize.get_vectors(call, index, page.ids) if page.ids else ():
        if not {"rawBody", "contentHash"} <= set(vector.get("metadata") or {}):
            return str(vector["id"])
    return None


async def _database_faults(call: Call, database: str, wanted: WantedDatabase) -> AsyncIterator[str]:
    doing = f"read the tables of {wanted.name}"
    tables = {str(row["name"]) for row in await d1.query(call, database, doing, TABLES)}
    ledger = await d1.query(call, database, doing, _LEDGER) if "d1_migrations" in tables else []
    applied = {str(row["name"]) for row in ledger} & set(wanted.migrations)
    ours = set(wanted.tables)
    if tables & ours and not applied:
        yield (
            f"database {wanted.name} has tables {_listed(tables & ours)} that no migration of this project "
            "has made (its ledger d1_migrations knows none of them): rename them, or choose another "
            "cf-rag:rag.name"
        )
    if wanted.migrations and wanted.migrations[0] in applied and not ours <= tables:
        yield (
            f"database {wanted.name} lacks tables {_listed(ours - tables)}, although its ledger says that "
            f"{wanted.migrations[0]} was applied: that was another file of this name, or they were dropped. "
            "Put them back, or delete the file's row in d1_migrations"
        )


async def _queue_faults(call: Call, queue: str, wanted: WantedQueue) -> AsyncIterator[str]:
    def listed(client: Cloudflare) -> list[Any]:
        return list(client.queues.consumers.list(queue, account_id=call.account.id))

    for each in await call.account.call(f"list the consumers of {wanted.name}", listed):
        script = getattr(each, "script", None) or getattr(each, "script_name", None)
        if script != wanted.consumer:
            by = f"Worker {script}" if script else "pulling"
            yield (
                f"queue {wanted.name} is consumed by {by}, not "
                f"{f'by Worker {wanted.consumer}' if wanted.consumer else 'by pulling'}: remove that consumer"
            )


async def _queue(call: Call, name: str) -> str | None:
    def listed(client: Cloudflare) -> list[Any]:
        return list(client.queues.list(account_id=call.account.id))

    found = [each for each in await call.account.call("list the queues", listed) if each.queue_name == name]
    return str(found[0].queue_id) if found else None


async def _worker(call: Call, name: str) -> str | None:
    def listed(client: Cloudflare) -> list[Any]:
        return list(client.workers.beta.workers.list(account_id=call.account.id))

    found = [each for each in await call.account.call("list the Workers", listed) if each.name == name]
    return str(found[0].id) if found else None


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
