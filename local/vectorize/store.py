"""Vectorize's durable state: indexes, their mutation log, and the vectors once mutations are due."""

import sqlite3
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from local.database import Database
from local.vectorize.filters import IndexType
from local.vectorize.matrix import Metric
from local.vectorize.vectors import VectorRow, WriteOp

_SCHEMA = """
CREATE TABLE IF NOT EXISTS indexes (
    uid INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, description TEXT, dimensions INTEGER NOT NULL,
    metric TEXT NOT NULL, created_on TEXT NOT NULL, gone INTEGER NOT NULL DEFAULT 0,
    processed_mutation TEXT, processed_at REAL);
CREATE UNIQUE INDEX IF NOT EXISTS live_names ON indexes (name) WHERE gone = 0;
CREATE TABLE IF NOT EXISTS mutations (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, uid INTEGER NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL,
    property TEXT, type TEXT, submitted_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS staged (
    seq INTEGER NOT NULL, position INTEGER NOT NULL, id TEXT NOT NULL, namespace TEXT, metadata TEXT,
    vals BLOB, PRIMARY KEY (seq, position));
CREATE TABLE IF NOT EXISTS vectors (
    uid INTEGER NOT NULL, id TEXT NOT NULL, namespace TEXT, metadata TEXT, vals BLOB NOT NULL,
    seq INTEGER NOT NULL, PRIMARY KEY (uid, id));
CREATE TABLE IF NOT EXISTS metadata_indexes (
    uid INTEGER NOT NULL, property TEXT NOT NULL, type TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (uid, property));
"""
_PER_INDEX = ("vectors", "metadata_indexes", "mutations")


class IndexRow(NamedTuple):
    """An index as it was created, and how far its mutations are processed."""

    uid: int
    name: str
    description: str | None
    dimensions: int
    metric: Metric
    created_on: str
    processed_mutation: str | None
    processed_at: float | None


class Mutation(NamedTuple):
    """One accepted change; `kind` is upsert, insert, delete, index-create or index-delete."""

    seq: int
    id: str
    kind: str
    property: str | None
    type: IndexType | None
    submitted_at: float


class StoredVector(NamedTuple):
    """A visible vector; `seq` is the mutation that wrote it."""

    id: str
    namespace: str | None
    metadata: str | None
    values: bytes
    seq: int


class MetadataIndexRow(NamedTuple):
    """A visible metadata index; vectors with a smaller `seq` are not in it."""

    property: str
    type: IndexType
    seq: int


_INDEX = (
    "SELECT uid, name, description, dimensions, metric, created_on, processed_mutation, processed_at"
    " FROM indexes"
)
_VECTOR = "SELECT id, namespace, metadata, vals, seq FROM vectors WHERE uid = ?"


class VectorStore:
    """SQL of Vectorize, nothing else. Callers hold `transaction` around what belongs together."""

    def __init__(self, path: Path) -> None:
        self._db = Database(path, _SCHEMA)
        self.transaction = self._db.transaction
        self.close = self._db.close

    def index(self, name: str) -> IndexRow | None:
        found = self._rows(f"{_INDEX} WHERE name = ? AND gone = 0", (name,))
        return IndexRow(*found[0]) if found else None

    def was_deleted(self, name: str) -> bool:
        return bool(self._rows("SELECT 1 FROM indexes WHERE name = ?", (name,)))

    def indexes(self) -> list[IndexRow]:
        return [IndexRow(*row) for row in self._rows(f"{_INDEX} WHERE gone = 0 ORDER BY name")]

    def create(self, name: str, description: str | None, dimensions: int, metric: Metric) -> None:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        self._run(
            "INSERT INTO indexes (name, description, dimensions, metric, created_on) VALUES (?, ?, ?, ?, ?)",
            (name, description, dimensions, metric, now),
        )

    def delete(self, uid: int) -> None:
        """Drop the data; the name stays known as deleted, and is free for a new index."""
        with self.transaction() as db:
            db.execute("DELETE FROM staged WHERE seq IN (SELECT seq FROM mutations WHERE uid = ?)", (uid,))
            for table in _PER_INDEX:
                db.execute(f"DELETE FROM {table} WHERE uid = ?", (uid,))
            db.execute("UPDATE indexes SET gone = 1 WHERE uid = ?", (uid,))

    def log(
        self, uid: int, now: float, kind: str, prop: str | None = None, kind_of_index: IndexType | None = None
    ) -> Mutation:
        """Append a mutation to the log of an index."""
        name = str(uuid.uuid4())
        seq = self._run(
            "INSERT INTO mutations (uid, id, kind, property, type, submitted_at) VALUES (?, ?, ?, ?, ?, ?)",
            (uid, name, kind, prop, kind_of_index, now),
        )
        return Mutation(seq, name, kind, prop, kind_of_index, now)

    def stage(self, seq: int, rows: Iterable[VectorRow]) -> None:
        """Keep the vectors of a logged insert or upsert until it is due."""
        staged = [(seq, position, *row) for position, row in enumerate(rows)]
        self._many("INSERT INTO staged VALUES (?, ?, ?, ?, ?, ?)", staged)

    def stage_ids(self, seq: int, ids: Iterable[str]) -> None:
        """Keep the ids of a logged delete until it is due."""
        staged = [(seq, position, name) for position, name in enumerate(ids)]
        self._many("INSERT INTO staged (seq, position, id) VALUES (?, ?, ?)", staged)

    def staged(self, seq: int) -> list[VectorRow]:
        rows = self._rows(
            "SELECT id, namespace, metadata, vals FROM staged WHERE seq = ? ORDER BY position", (seq,)
        )
        return [VectorRow(*row) for row in rows]

    def pending(self, uid: int) -> list[Mutation]:
        """Mutations that are not processed yet, in the order they were accepted."""
        rows = self._rows(
            "SELECT seq, id, kind, property, type, submitted_at FROM mutations WHERE uid = ? ORDER BY seq",
            (uid,),
        )
        return [Mutation(*row) for row in rows]

    def write(self, uid: int, seq: int, rows: Iterable[VectorRow], op: WriteOp) -> None:
        """Make vectors visible: an upsert replaces them whole, an insert leaves known ids alone."""
        conflict = "REPLACE" if op == "upsert" else "IGNORE"
        self._many(
            f"INSERT OR {conflict} INTO vectors VALUES (?, ?, ?, ?, ?, ?)", [(uid, *row, seq) for row in rows]
        )

    def remove(self, uid: int, ids: Iterable[str]) -> None:
        self._many("DELETE FROM vectors WHERE uid = ? AND id = ?", [(uid, name) for name in ids])

    def put_metadata_index(self, uid: int, row: MetadataIndexRow) -> None:
        self._run("INSERT OR REPLACE INTO metadata_indexes VALUES (?, ?, ?, ?)", (uid, *row))

    def drop_metadata_index(self, uid: int, prop: str) -> None:
        self._run("DELETE FROM metadata_indexes WHERE uid = ? AND property = ?", (uid, prop))

    def metadata_indexes(self, uid: int) -> list[MetadataIndexRow]:
        rows = self._rows(
            "SELECT property, type, seq FROM metadata_indexes WHERE uid = ? ORDER BY seq", (uid,)
        )
        return [MetadataIndexRow(*row) for row in rows]

    def processed(self, uid: int, mutation: Mutation, at: float) -> None:
        """Take a mutation off the log; the index's clock never goes back."""
        with self.transaction() as db:
            db.execute("DELETE FROM staged WHERE seq = ?", (mutation.seq,))
            db.execute("DELETE FROM mutations WHERE seq = ?", (mutation.seq,))
            db.execute(
                "UPDATE indexes SET processed_mutation = ?, processed_at = max(ifnull(processed_at, 0), ?)"
                " WHERE uid = ?",
                (mutation.id, at, uid),
            )

    def vectors(self, uid: int) -> list[StoredVector]:
        return [StoredVector(*row) for row in self._rows(_VECTOR, (uid,))]

    def get(self, uid: int, ids: Sequence[str]) -> dict[str, StoredVector]:
        """Visible vectors by id; unknown ids are left out."""
        marks = ", ".join("?" * len(ids))
        rows = self._rows(f"{_VECTOR} AND id IN ({marks})", (uid, *ids))
        return {row[0]: StoredVector(*row) for row in rows}

    def count(self, uid: int) -> int:
        return int(self._rows("SELECT count(*) FROM vectors WHERE uid = ?", (uid,))[0][0])

    def ids(self, uid: int) -> list[str]:
        return [row[0] for row in self._rows("SELECT id FROM vectors WHERE uid = ? ORDER BY id", (uid,))]

    def _rows(self, sql: str, params: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self.transaction() as db:
            return db.execute(sql, params).fetchall()

    def _run(self, sql: str, params: Sequence[Any]) -> int:
        with self.transaction() as db:
            return db.execute(sql, params).lastrowid or 0

    def _many(self, sql: str, params: Sequence[Sequence[Any]]) -> None:
        with self.transaction() as db:
            db.executemany(sql, params)
