"""D1 over the REST API: what is needed to read and write a stack's schema and state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from infra.provider.account import ApiFailure
from infra.provider.base import Call

if TYPE_CHECKING:
    from cloudflare import Cloudflare

Row = dict[str, Any]
Statement = tuple[str, Sequence[str]]


async def find_database(call: Call, name: str) -> str | None:
    """The id of the database with exactly this name."""

    def listed(client: Cloudflare) -> list[Any]:
        return list(client.d1.database.list(account_id=call.account.id, name=name))

    # The API's filter also finds names that only contain it.
    found = [item for item in await call.account.call("list the D1 databases", listed) if item.name == name]
    return str(found[0].uuid) if found else None


async def query(call: Call, database: str, doing: str, sql: str, *params: str) -> list[Row]:
    """The rows of one statement."""

    def run(client: Cloudflare) -> list[Any]:
        answer = client.d1.database.query(
            database, account_id=call.account.id, sql=sql, params=[str(value) for value in params]
        )
        return list(answer)

    results = await call.account.call(doing, run)
    return list(results[0].results or ()) if results else []


async def batch(call: Call, database: str, doing: str, statements: Sequence[Statement]) -> None:
    """Run the statements in one transaction, without the SDK's repeats: it is not known to be repeatable."""
    listed = [{"sql": sql, "params": list(params)} for sql, params in statements]

    def run(client: Cloudflare) -> Any:
        once = client.with_options(max_retries=0)
        return list(once.d1.database.query(database, account_id=call.account.id, batch=listed))  # type: ignore[arg-type]

    await call.account.call(doing, run)


async def meta(call: Call, database: str) -> dict[str, str] | None:
    """The stack's `meta` table; empty where it was not made yet, None where the database is gone."""
    try:
        tables = await query(
            call, database, "read the database's tables", "SELECT name FROM sqlite_master WHERE name = 'meta'"
        )
        if not tables:
            return {}
        rows = await query(call, database, "read the database's state", "SELECT key, value FROM meta")
    except ApiFailure as failure:
        if failure.missing:
            return None
        raise
    return {str(row["key"]): str(row["value"]) for row in rows}


async def now(call: Call, database: str) -> int:
    """The database's clock in ms; this machine's may be far from the Worker's."""
    sql = "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS now"
    (row,) = await query(call, database, "read the database's clock", sql)
    return int(row["now"])


def space_of(values: dict[str, str]) -> dict[str, Any]:
    """The Worker's word on the stored vectors (`model`, `dims`, `generation`); empty before the first."""
    found = json.loads(values.get("space") or "{}")
    return found if isinstance(found, dict) else {}
