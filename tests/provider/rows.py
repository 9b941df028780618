"""A stack's database as a Worker has left it, with its documents in one index."""

import json
from typing import Any

from cfrag.pulumi_env import ROOT
from infra.provider.resources.d1_migrations import statements_of
from infra.provider.values import Values
from tests.provider.replacing import BASE, OLD, space
from tests.provider.support import LocalCloudflare

REVISION = "abcdef012345"
READY = ["active:boolean", "kind:string", "tags:string"]


def filled(cloudflare: LocalCloudflare, name: str, documents: int, **columns: object) -> str:
    """A database of generation 1 with rows `v0`, `v1` … as of written documents; its id.

    `columns` are values that all rows get instead.
    """
    database = empty(cloudflare, name)
    put(cloudflare, database, "space", space(1, BASE, 768, OLD, "main"))
    put(cloudflare, database, "schema", {"revision": REVISION, "ready": READY})
    row = {"seq": 1, "content_hash": "h", "embed_model": OLD, "schema_rev": REVISION} | columns
    for number in range(documents):
        values = ", ".join("NULL" if each is None else f"'{each}'" for each in row.values())
        cloudflare.sql(
            database, f"INSERT INTO documents(id, {', '.join(row)}) VALUES ('v{number}', {values})"
        )
    return database


def empty(cloudflare: LocalCloudflare, name: str) -> str:
    """A database that has its tables only."""
    return cloudflare.database(name, *statements_of((ROOT / "migrations/0001_init.sql").read_text()))


def put(cloudflare: LocalCloudflare, database: str, key: str, value: Any) -> None:
    cloudflare.sql(database, f"INSERT INTO meta VALUES ('{key}', '{json.dumps(value)}')")


def meta(cloudflare: LocalCloudflare, database: str) -> dict[str, Any]:
    """All of `meta`, its values parsed where they are JSON."""
    found = {row["key"]: row["value"] for row in cloudflare.sql(database, "SELECT * FROM meta")}
    return {key: json.loads(value) if value[:1] in "{[" else value for key, value in found.items()}


def column(cloudflare: LocalCloudflare, database: str, name: str) -> list[Any]:
    """One column of all documents, in the order of their ids."""
    return [row[name] for row in cloudflare.sql(database, f"SELECT {name} FROM documents ORDER BY id")]


def metadata_index(name: str, **changes: object) -> Values:
    """Inputs of the metadata index `kind` of an index whose database is `<name>-db`."""
    return {
        "index": name,
        "propertyName": "kind",
        "indexType": "string",
        "database": f"{name}-db",
        **changes,
    }
