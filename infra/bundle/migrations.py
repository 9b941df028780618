"""Numbered migrations, generated from the tables: `python -m infra.bundle.migrations [name]`.

A migration that has been applied anywhere never changes; a change of the tables becomes the next file, and
it may only add. The files are what `wrangler d1 migrations apply` takes as well.
"""

import re
import sqlite3
import sys
from pathlib import Path

from sqlalchemy import Column, Index, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from infra.bundle.tables import METADATA
from infra.errors import CfragError

FOLDER = Path(__file__).resolve().parents[2] / "migrations"
_NUMBERED = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")


def files(folder: Path = FOLDER) -> list[Path]:
    """The migrations in the order in which they are applied."""
    return sorted(path for path in folder.glob("*.sql") if _NUMBERED.fullmatch(path.name))


def applied(paths: list[Path]) -> sqlite3.Connection:
    """An empty database in memory after these migrations."""
    database = sqlite3.connect(":memory:")
    for path in paths:
        database.executescript(path.read_text(encoding="utf-8"))
    return database


def wanted() -> sqlite3.Connection:
    """An empty database in memory with the tables as they are declared."""
    database = sqlite3.connect(":memory:")
    for table in METADATA.sorted_tables:
        database.executescript(";".join(_create(table)))
    return database


def shape(database: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    """Tables with their columns, and indexes with their definitions: equal for equal databases."""
    found: dict[str, list[tuple[object, ...]]] = {}
    for kind, name, sql in database.execute(
        "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
    ):
        if kind == "table":
            # The position of a column does not count: a migration can only append.
            found[name] = sorted(row[1:] for row in database.execute(f"PRAGMA table_xinfo({name})"))
        else:
            found[name] = [(kind, " ".join(sql.split()))]
    return found


def missing(paths: list[Path]) -> list[str]:
    """Statements that bring a database after these migrations to the declared tables; none if it is there.

    Raises CfragError where that would need more than adding: Workers of two versions share the database.
    """
    have, want = shape(applied(paths)), shape(wanted())
    gone = sorted(have.keys() - want.keys())
    if gone:
        raise CfragError(f"{', '.join(gone)} in migrations/ but not in the tables; migrations only add")
    statements: list[str] = []
    for table in METADATA.sorted_tables:
        if table.name not in have:
            statements += _create(table)
            continue
        statements += _added_columns(table, have[table.name], want[table.name])
        statements += [_index(index) for index in _indexes(table) if index.name not in have]
    changed = [name for name in have if name not in METADATA.tables and have[name] != want[name]]
    if changed:
        raise CfragError(
            f"{', '.join(changed)} would have to change; migrations only add: give it a new name"
        )
    return statements


def _added_columns(table: Table, have: list[tuple[object, ...]], want: list[tuple[object, ...]]) -> list[str]:
    names = {row[0] for row in have}
    if changed := [str(row[0]) for row in have if row not in want]:
        raise CfragError(f"{table.name}.{', '.join(changed)} would have to change; migrations only add")
    return [_add(table, column) for column in table.columns if column.name not in names]


def _add(table: Table, column: Column[object]) -> str:
    if not column.nullable and column.server_default is None:
        raise CfragError(f"{table.name}.{column.name} is required and has no default: old rows can't have it")
    declared = _one_line(str(CreateColumn(column).compile(dialect=_DIALECT)))
    return f"ALTER TABLE {table.name} ADD COLUMN {declared}"


_DIALECT = sqlite.dialect()


def _indexes(table: Table) -> list[Index]:
    return sorted(table.indexes, key=lambda index: str(index.name))


def _create(table: Table) -> list[str]:
    create = str(CreateTable(table).compile(dialect=_DIALECT)).replace("\t", "    ")
    lines = [line.rstrip() for line in create.strip().splitlines() if line.strip()]
    return ["\n".join(lines), *(_index(index) for index in _indexes(table))]


def _index(index: Index) -> str:
    return _one_line(str(CreateIndex(index).compile(dialect=_DIALECT)))


def _one_line(sql: str) -> str:
    return " ".join(sql.split())


def write_next(name: str, folder: Path = FOLDER) -> Path | None:
    """Write the migration that is missing, None if there is nothing to add."""
    present = files(folder)
    statements = missing(present)
    if not statements:
        return None
    path = folder / f"{len(present) + 1:04d}_{name}.sql"
    path.write_text("".join(f"{statement};\n" for statement in statements), encoding="utf-8")
    return path


if __name__ == "__main__":
    written = write_next(sys.argv[1] if len(sys.argv) > 1 else ("init" if not files() else "change"))
    print(f"wrote {written.name}" if written else "migrations/ is up to date with the tables")
