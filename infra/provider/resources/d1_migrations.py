"""`D1Migrations`: a database's schema as numbered SQL files, each applied exactly once."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import field_validator

from infra.catalog import D1_SQL_BYTES
from infra.errors import CfragError
from infra.provider import d1
from infra.provider.account import ApiFailure
from infra.provider.base import Call, Change, CheckFailure, Found, Inputs, Resource, changes_between
from infra.provider.values import Values

_NAME = re.compile(r"(\d+)[^/\\]*\.sql")
# The ledger as wrangler makes it (workers-sdk, wrangler/src/d1/migrations), so both tools can be used.
_LEDGER = (
    "CREATE TABLE IF NOT EXISTS d1_migrations(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, "
    "applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)"
)
_CHECKSUMS = "CREATE TABLE IF NOT EXISTS cfrag_migrations(name TEXT PRIMARY KEY, sha256 TEXT NOT NULL)"
_TABLES = "SELECT name FROM sqlite_master WHERE name IN ('d1_migrations', 'cfrag_migrations')"
_RECORD = "INSERT INTO d1_migrations(name) VALUES (?)"
_RECORD_CHECKSUM = "INSERT OR REPLACE INTO cfrag_migrations(name, sha256) VALUES (?, ?)"


class MigrationInputs(Inputs):
    """SQL text by file name."""

    database_id: str
    migrations: dict[str, str]

    @field_validator("migrations")
    @classmethod
    def _numbered(cls, migrations: dict[str, str]) -> dict[str, str]:
        numbers: dict[int, str] = {}
        for name in migrations:
            match = _NAME.fullmatch(name)
            if match is None:
                raise ValueError(f"{name} has to start with a number and end in .sql, such as 0001_init.sql")
            twin = numbers.setdefault(int(match[1]), name)
            if twin != name:
                raise ValueError(f"{twin} and {name} have the same number")
        return dict(sorted(migrations.items(), key=lambda item: number_of(item[0])))


@dataclass(frozen=True)
class Ledger:
    """What a database says was applied, in order, and the checksums that are known."""

    applied: tuple[str, ...]
    checksums: dict[str, str]


class D1Migrations(Resource[MigrationInputs]):
    """Applies what the ledger lacks; the database itself remembers, so a lost state loses nothing."""

    token = "cfrag:index:D1Migrations"
    model = MigrationInputs
    outputs = ("applied",)
    described: ClassVar[dict[str, Any]] = {"applied": list[str]}
    volatile = frozenset({"applied"})
    replace_on = frozenset({"databaseId"})

    async def check(self, call: Call, new: MigrationInputs, old: Values | None) -> list[CheckFailure]:
        """Refuse an edited file that was applied, and a removed one."""
        before = (old or {}).get("migrations", {})
        if old and old.get("databaseId") == new.database_id:
            if before == new.migrations:
                return []
            if removed := sorted(set(before) - set(new.migrations)):
                return [CheckFailure("migrations", _removed(removed))]
        ledger = await read_ledger(call, new.database_id)
        reasons = [*edited(new.migrations, ledger), *overtaken(new.migrations, ledger)]
        return [CheckFailure("migrations", reason) for reason in reasons]

    def compare(self, old: Values, new: Values) -> Iterator[Change]:
        """Files by name; one that the database has lost is a change as well."""
        yield from changes_between(old.get("migrations"), new.get("migrations"), "migrations")
        yield from changes_between(old.get("databaseId"), new.get("databaseId"), "databaseId")
        declared = set(old.get("migrations", {})) & set(_known(new.get("migrations")))
        if declared - set(old.get("applied", declared)):
            yield Change("applied", "update")

    async def create(self, call: Call, new: MigrationInputs) -> tuple[str, Values]:
        """Apply every file that the ledger does not hold."""
        return new.database_id, {"applied": await apply(call, new)}

    async def read(self, call: Call, resource_id: str, state: Values) -> Found | None:
        """The ledger as it is."""
        ledger = await read_ledger(call, resource_id)
        if ledger is None:
            return None
        inputs = {"databaseId": resource_id, "migrations": state.get("migrations", {})}
        if state and (unknown := [name for name in ledger.applied if name not in inputs["migrations"]]):
            await call.warn(_unknown(unknown))
        return Found(inputs | {"applied": list(ledger.applied)}, inputs)

    async def update(self, call: Call, resource_id: str, old: Values, new: MigrationInputs) -> Values:
        """Apply the new files."""
        return {"applied": await apply(call, new)}


def _known(migrations: Any) -> Iterable[str]:
    return migrations if isinstance(migrations, dict) else ()


def number_of(name: str) -> int:
    """The leading number of a file name, which is its place in the order."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else 0


def checksum(sql: str) -> str:
    """SHA-256 of a file's text, line ends as LF."""
    return hashlib.sha256(sql.replace("\r\n", "\n").encode()).hexdigest()


def statements_of(sql: str) -> Iterator[str]:
    """The whole statements of a file, a trigger's body included.

    Splitting at every semicolon breaks triggers ("incomplete input"), so SQLite decides where one ends.
    """
    pending = ""
    for piece in re.split(r"(?<=;)", sql):
        pending += piece
        if sqlite3.complete_statement(pending):
            yield pending.strip()
            pending = ""
    if not _is_comment(pending):
        yield pending.strip()


def edited(migrations: dict[str, str], ledger: Ledger | None) -> Iterable[str]:
    """One refusal for each applied file whose text is another one now."""
    for name, known in (ledger.checksums if ledger else {}).items():
        if name in migrations and checksum(migrations[name]) != known:
            yield (
                f"{name} was edited after it was applied (checksum {known[:12]} in the database, "
                f"{checksum(migrations[name])[:12]} now): put the applied text back, and write a new "
                f"file for the change"
            )


def overtaken(migrations: dict[str, str], ledger: Ledger | None) -> Iterable[str]:
    """One refusal for each file whose number the database knows by another name."""
    applied = ledger.applied if ledger else ()
    taken = {number_of(name): name for name in applied if name not in migrations and _NAME.fullmatch(name)}
    for name in migrations:
        if name not in applied and number_of(name) in taken:
            yield (
                f"{name} has the number of {taken[number_of(name)]}, which somebody else has applied: put "
                "that file into migrations/, and give this one the next number"
            )


async def read_ledger(call: Call, database: str) -> Ledger | None:
    """What was applied; None where the database is gone."""
    try:
        found = await d1.query(call, database, "read the migration ledger", _TABLES)
        tables = {row["name"] for row in found}
        applied: list[d1.Row] = []
        checksums: list[d1.Row] = []
        if "d1_migrations" in tables:
            applied = await d1.query(
                call, database, "read the migration ledger", "SELECT name FROM d1_migrations ORDER BY id"
            )
        if "cfrag_migrations" in tables:
            checksums = await d1.query(
                call, database, "read the migrations' checksums", "SELECT name, sha256 FROM cfrag_migrations"
            )
    except ApiFailure as failure:
        if failure.missing:
            return None
        raise
    return Ledger(
        tuple(str(row["name"]) for row in applied),
        {str(row["name"]): str(row["sha256"]) for row in checksums},
    )


async def apply(call: Call, new: MigrationInputs) -> list[str]:
    """Apply the pending files in order, each in one transaction with its entry in the ledger."""
    database = new.database_id
    await d1.batch(call, database, "prepare the migration ledger", [(_LEDGER, ()), (_CHECKSUMS, ())])
    ledger = await read_ledger(call, database)
    if ledger is None:
        raise CfragError(f"database {database} disappeared while its migrations were applied")
    await _take_over(call, new, ledger)
    applied = list(ledger.applied)
    for name, sql in new.migrations.items():
        if name not in applied:
            await call.progress(f"applying {name}")
            await _apply_one(call, database, name, sql)
            applied.append(name)
    return applied


async def _take_over(call: Call, new: MigrationInputs, ledger: Ledger) -> None:
    """Record the checksums of files that wrangler has applied."""
    unrecorded = [name for name in ledger.applied if name in new.migrations and name not in ledger.checksums]
    if unrecorded:
        statements = [(_RECORD_CHECKSUM, (name, checksum(new.migrations[name]))) for name in unrecorded]
        await d1.batch(call, new.database_id, "record the migrations' checksums", statements)


async def _apply_one(call: Call, database: str, name: str, sql: str) -> None:
    statements: list[d1.Statement] = [(_RECORD, (name,)), (_RECORD_CHECKSUM, (name, checksum(sql)))]
    for statement in statements_of(sql):
        if (size := len(statement.encode())) > D1_SQL_BYTES.value:
            raise CfragError(f"migration {name}: {D1_SQL_BYTES.refusal('a statement', size)}; split it")
        statements.append((statement, ()))
    try:
        await d1.batch(call, database, f"apply migration {name}", statements)
    except ApiFailure as failure:
        # The answer may have been lost after the transaction: the ledger knows.
        ledger = await read_ledger(call, database) if failure.status in (0, 408, 500, 502, 503, 504) else None
        if ledger is None or name not in ledger.applied:
            raise CfragError(
                f"{failure}. The files before {name} are applied; correct it and run `pulumi up` again"
            ) from None


def _removed(names: list[str]) -> str:
    return (
        f"{', '.join(names)} is missing now: migrations are only added. Put the file back; to undo what "
        f"it did, "
        "write a new one"
    )


def _unknown(names: list[str]) -> str:
    return (
        f"the database has migrations that are not of this project: {', '.join(names)}. If another program "
        "shares the database, leave them; else put the files into migrations/, so that every database gets "
        "them"
    )


def _is_comment(sql: str) -> bool:
    without = re.sub(r"/\*.*?\*/|--[^\n]*", "", sql, flags=re.DOTALL)
    return not without.strip(" \t\r\n;")
