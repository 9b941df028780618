"""The queues' durable state: queues, consumers and messages in one SQLite file."""

import json
import sqlite3
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from local.database import Database
from local.queues.messages import NewMessage

_SCHEMA = """
CREATE TABLE IF NOT EXISTS queues (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, created_on TEXT NOT NULL, modified_on TEXT NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0, settings TEXT NOT NULL, purged_at TEXT);
CREATE TABLE IF NOT EXISTS consumers (
    id TEXT PRIMARY KEY, queue TEXT NOT NULL UNIQUE, type TEXT NOT NULL, script TEXT,
    dead_letter_queue TEXT, settings TEXT NOT NULL, created_on TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS messages (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, queue TEXT NOT NULL, body TEXT NOT NULL,
    content_type TEXT NOT NULL, size INTEGER NOT NULL, sent_at REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, available_at REAL NOT NULL, lease TEXT, leased_by TEXT);
CREATE INDEX IF NOT EXISTS due ON messages (queue, available_at, seq);
"""
Leaser = Literal["worker", "pull"]


class QueueRow(NamedTuple):
    """A queue; `settings` as in `local.queues.settings.QUEUE`."""

    id: str
    name: str
    created_on: str
    modified_on: str
    paused: bool
    settings: dict[str, Any]
    purged_at: str | None


class ConsumerRow(NamedTuple):
    """The one consumer of a queue; `script` is None for http_pull."""

    id: str
    queue: str
    type: Literal["worker", "http_pull"]
    script: str | None
    dead_letter_queue: str | None
    settings: dict[str, Any]
    created_on: str


class MessageRow(NamedTuple):
    """A stored message. `attempts` counts deliveries; `available_at` is when the next may start."""

    seq: int
    id: str
    queue: str
    body: str
    content_type: str
    size: int
    sent_at: float
    attempts: int
    available_at: float
    lease: str | None


class Backlog(NamedTuple):
    """What waits in a queue: `due` counts at most a batch, `oldest` is since when the first is due."""

    due: int
    oldest: float | None
    following: float | None


_MESSAGE = (
    "SELECT seq, id, queue, body, content_type, size, sent_at, attempts, available_at, lease FROM messages"
)


class QueueStore:
    """SQL of the queues, nothing else. Callers hold `transaction` around what belongs together."""

    def __init__(self, path: Path) -> None:
        self._db = Database(path, _SCHEMA)
        self.transaction = self._db.transaction
        self.close = self._db.close

    # -- queues and consumers -----------------------------------------------------------------

    def queues(self, column: str | None = None, value: str = "") -> list[QueueRow]:
        """All queues, or those whose `column` (id or name) is `value`, by name."""
        where = f"WHERE {column} = ?" if column else ""
        rows = self._rows(f"SELECT * FROM queues {where} ORDER BY name", (value,) if column else ())
        return [
            QueueRow(row[0], row[1], row[2], row[3], bool(row[4]), json.loads(row[5]), row[6]) for row in rows
        ]

    def save_queue(self, row: QueueRow) -> None:
        values = (*row[:4], int(row.paused), json.dumps(row.settings), row.purged_at)
        self._run(
            "INSERT INTO queues VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
            " name = excluded.name, modified_on = excluded.modified_on, paused = excluded.paused,"
            " settings = excluded.settings, purged_at = excluded.purged_at",
            values,
        )

    def delete_queue(self, queue: str) -> None:
        with self.transaction() as db:
            db.execute("DELETE FROM messages WHERE queue = ?", (queue,))
            db.execute("DELETE FROM consumers WHERE queue = ?", (queue,))
            db.execute("DELETE FROM queues WHERE id = ?", (queue,))

    def consumers(self, queue: str | None = None) -> list[ConsumerRow]:
        where = "WHERE queue = ?" if queue else ""
        rows = self._rows(
            f"SELECT * FROM consumers {where} ORDER BY created_on, id", (queue,) if queue else ()
        )
        return [
            ConsumerRow(row[0], row[1], row[2], row[3], row[4], json.loads(row[5]), row[6]) for row in rows
        ]

    def save_consumer(self, row: ConsumerRow) -> None:
        self._run(
            "INSERT OR REPLACE INTO consumers VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*row[:5], json.dumps(row.settings), row.created_on),
        )

    def delete_consumer(self, consumer: str) -> None:
        self._run("DELETE FROM consumers WHERE id = ?", (consumer,))

    # -- messages -----------------------------------------------------------------------------

    def add(self, queue: str, messages: Iterable[NewMessage], now: float, default_delay: int) -> None:
        rows = [
            (uuid.uuid4().hex, queue, one.body, one.content_type, one.size, now, now + wait)
            for one in messages
            for wait in (default_delay if one.delay is None else one.delay,)
        ]
        self._many(
            "INSERT INTO messages (id, queue, body, content_type, size, sent_at, available_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            rows,
        )

    def due(self, queue: str, now: float, limit: int) -> list[MessageRow]:
        """Messages that may be delivered now, those due longest first."""
        rows = self._rows(
            f"{_MESSAGE} WHERE queue = ? AND available_at <= ? ORDER BY available_at, seq LIMIT ?",
            (queue, now, limit),
        )
        return [MessageRow(*row) for row in rows]

    def backlog(self, queue: str, now: float, limit: int) -> Backlog:
        due = self._rows(
            "SELECT count(*), min(available_at) FROM (SELECT available_at FROM messages"
            " WHERE queue = ? AND available_at <= ? LIMIT ?)",
            (queue, now, limit),
        )[0]
        following = self._rows(
            "SELECT min(available_at) FROM messages WHERE queue = ? AND available_at > ?", (queue, now)
        )[0]
        return Backlog(due[0], due[1], following[0])

    def stored(self, queue: str, limit: int) -> list[MessageRow]:
        """The oldest messages, delivered at the moment or not."""
        rows = self._rows(f"{_MESSAGE} WHERE queue = ? ORDER BY seq LIMIT ?", (queue, limit))
        return [MessageRow(*row) for row in rows]

    def lease(self, messages: Iterable[MessageRow], until: float, by: Leaser) -> list[MessageRow]:
        """Count a delivery of each and keep it from others until `until`."""
        leased = [
            one._replace(attempts=one.attempts + 1, available_at=until, lease=f"{one.id}.{uuid.uuid4().hex}")
            for one in messages
        ]
        self._many(
            "UPDATE messages SET attempts = ?, available_at = ?, lease = ?, leased_by = ? WHERE seq = ?",
            [(one.attempts, until, one.lease, by, one.seq) for one in leased],
        )
        return leased

    def by_id(self, queue: str, name: str) -> MessageRow | None:
        rows = self._rows(f"{_MESSAGE} WHERE queue = ? AND id = ?", (queue, name))
        return MessageRow(*rows[0]) if rows else None

    def put_back(self, message: MessageRow, available_at: float, uncount: bool = False) -> None:
        """End a lease; `uncount` takes the delivery back, for one that never reached its consumer."""
        self._run(
            "UPDATE messages SET available_at = ?, lease = NULL, leased_by = NULL,"
            " attempts = attempts - ? WHERE seq = ?",
            (available_at, int(uncount), message.seq),
        )

    def put_back_all(self, now: float, by: Leaser) -> None:
        """End every lease of `by`, uncounted: the process that held them is gone."""
        self._run(
            "UPDATE messages SET available_at = ?, lease = NULL, leased_by = NULL, attempts = attempts - 1"
            " WHERE leased_by = ?",
            (now, by),
        )

    def move(self, message: MessageRow, queue: str, available_at: float) -> None:
        """Into another queue, as a message that was never delivered there."""
        self._run(
            "UPDATE messages SET queue = ?, attempts = 0, available_at = ?, lease = NULL, leased_by = NULL"
            " WHERE seq = ?",
            (queue, available_at, message.seq),
        )

    def remove(self, message: MessageRow) -> bool:
        with self.transaction() as db:
            return db.execute("DELETE FROM messages WHERE seq = ?", (message.seq,)).rowcount > 0

    def clear(self, queue: str, sent_before: float | None = None) -> None:
        """Delete a queue's messages, or only those sent before a time."""
        until = float("inf") if sent_before is None else sent_before
        self._run("DELETE FROM messages WHERE queue = ? AND sent_at < ?", (queue, until))

    def metrics(self, queue: str) -> tuple[int, int, float | None]:
        """Number and bytes of a queue's messages, and when the oldest was sent."""
        row = self._rows(
            "SELECT count(*), ifnull(sum(size), 0), min(sent_at) FROM messages WHERE queue = ?", (queue,)
        )[0]
        return row[0], row[1], row[2]

    def _rows(self, sql: str, params: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self.transaction() as db:
            return db.execute(sql, params).fetchall()

    def _run(self, sql: str, params: Sequence[Any]) -> None:
        with self.transaction() as db:
            db.execute(sql, params)

    def _many(self, sql: str, params: Sequence[Sequence[Any]]) -> None:
        with self.transaction() as db:
            db.executemany(sql, params)
