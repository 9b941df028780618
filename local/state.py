"""What the local account holds besides vectors and messages: one SQLite file, written through."""

import json
import secrets
import socket
import sqlite3
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

JsonObject = dict[str, Any]

# Below every usual ephemeral range, so that no outgoing connection takes a Worker's port.
WORKER_PORTS = range(20_000, 30_000)

SCHEMA = """
create table if not exists settings (key text primary key, value text not null);
create table if not exists ports (worker text primary key, port integer not null unique);
create table if not exists databases (uuid text primary key, name text not null unique, body text not null);
create table if not exists workers (id text primary key, name text not null unique, body text not null);
create table if not exists versions (
    id text primary key, worker_id text not null references workers(id) on delete cascade,
    number integer not null, body text not null, unique (worker_id, number));
create table if not exists deployments (
    seq integer primary key autoincrement, id text not null unique,
    worker_id text not null references workers(id) on delete cascade, body text not null);
create table if not exists objects (kind text, id text, body text not null, primary key (kind, id));
"""


def now() -> str:
    """The time as Cloudflare writes it: ISO 8601, UTC, microseconds."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


@dataclass
class Database:
    uuid: str
    name: str
    created_at: str
    read_replication: JsonObject
    jurisdiction: str | None = None


@dataclass
class Worker:
    id: str
    name: str
    created_on: str
    updated_on: str
    spec: JsonObject
    deployed_on: str | None = None


@dataclass
class Module:
    name: str
    content_type: str
    sha256: str
    size: int


@dataclass
class Version:
    """One uploaded version; `bindings` are resolved and hold secrets in clear."""

    id: str
    worker_id: str
    number: int
    created_on: str
    spec: JsonObject
    bindings: list[JsonObject]
    modules: list[Module]
    source: str = "api"


@dataclass
class Deployment:
    id: str
    worker_id: str
    created_on: str
    versions: list[JsonObject]
    annotations: JsonObject = field(default_factory=dict)
    source: str = "api"

    @property
    def running(self) -> str:
        """The id of the version that runs here: the one with the largest share, first of equals."""
        return str(max(self.versions, key=lambda version: float(version["percentage"]))["version_id"])


def new_id() -> str:
    """An object id as Cloudflare makes them: 32 hexadecimal digits."""
    return secrets.token_hex(16)


class State:
    """The control state. One connection, used from the server's event loop only."""

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)
        # Routes that run in threads ask here too; SQLite itself lets only one of them in at a time.
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma foreign_keys = on")
        self._db.executescript(SCHEMA)

    def close(self) -> None:
        self._db.close()

    # settings

    def setting(self, key: str, default: Any = None) -> Any:
        row = self._db.execute("select value from settings where key = ?", (key,)).fetchone()
        return json.loads(row[0]) if row else default

    def set_setting(self, key: str, value: Any) -> None:
        self._db.execute("insert or replace into settings values (?, ?)", (key, json.dumps(value)))

    # ports

    def port(self, worker: str) -> int:
        """The port of a Worker's name: reserved on first use, the same ever after."""
        row = self._db.execute("select port from ports where worker = ?", (worker,)).fetchone()
        if row:
            return int(row[0])
        taken = {int(port) for (port,) in self._db.execute("select port from ports")}
        port = next(port for port in _shuffled(WORKER_PORTS) if port not in taken and is_free(port))
        self._db.execute("insert into ports values (?, ?)", (worker, port))
        return port

    # databases

    def databases(self) -> list[Database]:
        rows = self._db.execute("select body from databases order by rowid desc")
        return [Database(**json.loads(body)) for (body,) in rows]

    def database(self, ident: str) -> Database | None:
        row = self._db.execute("select body from databases where uuid = ?", (ident,)).fetchone()
        return Database(**json.loads(row[0])) if row else None

    def save_database(self, database: Database) -> None:
        """Insert or update; raises sqlite3.IntegrityError for a name that another one has."""
        self._db.execute(
            "insert into databases values (?, ?, ?)"
            " on conflict (uuid) do update set name = excluded.name, body = excluded.body",
            (database.uuid, database.name, json.dumps(vars(database))),
        )

    def delete_database(self, ident: str) -> None:
        self._db.execute("delete from databases where uuid = ?", (ident,))

    # workers

    def workers(self) -> list[Worker]:
        rows = self._db.execute("select body from workers order by name")
        return [Worker(**json.loads(body)) for (body,) in rows]

    def worker(self, ident: str) -> Worker | None:
        """A Worker by its id or its name."""
        row = self._db.execute("select body from workers where id = ?1 or name = ?1", (ident,)).fetchone()
        return Worker(**json.loads(row[0])) if row else None

    def save_worker(self, worker: Worker) -> None:
        """Insert or update; raises sqlite3.IntegrityError for a name that another one has."""
        self._db.execute(
            "insert into workers values (?, ?, ?)"
            " on conflict (id) do update set name = excluded.name, body = excluded.body",
            (worker.id, worker.name, json.dumps(vars(worker))),
        )

    def delete_worker(self, worker: Worker) -> None:
        """Versions and deployments go with it; the port stays reserved for the name."""
        self._db.execute("delete from workers where id = ?", (worker.id,))

    # versions

    def versions(self, worker: Worker) -> list[Version]:
        """Newest first."""
        rows = self._db.execute(
            "select body from versions where worker_id = ? order by number desc", (worker.id,)
        )
        return [_version(body) for (body,) in rows]

    def version(self, worker: Worker, ident: str) -> Version | None:
        """A version by its id, or the newest as `latest`."""
        if ident == "latest":
            return next(iter(self.versions(worker)), None)
        row = self._db.execute(
            "select body from versions where worker_id = ? and id = ?", (worker.id, ident)
        ).fetchone()
        return _version(row[0]) if row else None

    def next_number(self, worker: Worker) -> int:
        row = self._db.execute(
            "select coalesce(max(number), 0) + 1 from versions where worker_id = ?", (worker.id,)
        ).fetchone()
        return int(row[0])

    def add_version(self, version: Version) -> None:
        body = {**vars(version), "modules": [vars(module) for module in version.modules]}
        self._db.execute(
            "insert into versions values (?, ?, ?, ?)",
            (version.id, version.worker_id, version.number, json.dumps(body)),
        )

    def delete_version(self, version: Version) -> None:
        self._db.execute("delete from versions where id = ?", (version.id,))

    def blobs(self) -> set[str]:
        """The SHA-256 of every module of every version."""
        rows = self._db.execute("select body from versions")
        return {module.sha256 for (body,) in rows for module in _version(body).modules}

    # deployments

    def deployments(self, worker: Worker) -> list[Deployment]:
        """Newest first; the first is the active one."""
        rows = self._db.execute(
            "select body from deployments where worker_id = ? order by seq desc", (worker.id,)
        )
        return [Deployment(**json.loads(body)) for (body,) in rows]

    def active(self, worker: Worker) -> Deployment | None:
        return next(iter(self.deployments(worker)), None)

    def add_deployment(self, deployment: Deployment) -> None:
        self._db.execute(
            "insert into deployments (id, worker_id, body) values (?, ?, ?)",
            (deployment.id, deployment.worker_id, json.dumps(vars(deployment))),
        )

    def delete_deployment(self, deployment: Deployment) -> None:
        self._db.execute("delete from deployments where id = ?", (deployment.id,))

    # objects that are only remembered: custom domains, routes

    def objects(self, kind: str) -> list[JsonObject]:
        rows = self._db.execute("select body from objects where kind = ? order by rowid", (kind,))
        return [json.loads(body) for (body,) in rows]

    def put_object(self, kind: str, ident: str, body: JsonObject) -> None:
        self._db.execute("insert or replace into objects values (?, ?, ?)", (kind, ident, json.dumps(body)))

    def delete_object(self, kind: str, ident: str) -> bool:
        done = self._db.execute("delete from objects where kind = ? and id = ?", (kind, ident))
        return done.rowcount > 0


@lru_cache(maxsize=256)
def _version(body: str) -> Version:
    """A version never changes; a list of queues asks for that of each Worker, with hundreds of modules."""
    fields = json.loads(body)
    return Version(**{**fields, "modules": [Module(**module) for module in fields["modules"]]})


def _shuffled(ports: range) -> Iterator[int]:
    while True:
        yield ports.start + secrets.randbelow(len(ports))


def is_free(port: int) -> bool:
    """Whether `port` of 127.0.0.1 can be listened on now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def new_uuid() -> str:
    return str(uuid.uuid4())
