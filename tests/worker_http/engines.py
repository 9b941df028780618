"""Bindings for tests on this machine's Python: SQLite under D1's limits, and the local engines."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.catalog import D1_PARAMS
from local.ai import EmbeddingService
from local.vectorize import VectorizeService

ROOT = Path(__file__).resolve().parents[2]
SECRET = "internal-secret-of-the-tests-0123456789"
INDEX = "index"


class Statement:
    def __init__(self, database: sqlite3.Connection, sql: str, params: tuple[Any, ...] = ()) -> None:
        self._database = database
        self._sql = sql
        self._params = params

    def bind(self, *params: Any) -> "Statement":
        if len(params) > D1_PARAMS.value:
            raise RuntimeError(f"D1_ERROR: too many SQL variables: {len(params)}")
        return Statement(self._database, self._sql, params)

    async def all(self) -> Mapping[str, Any]:
        return self.run()

    def run(self) -> Mapping[str, Any]:
        try:
            found = self._database.execute(self._sql, self._params)
        except sqlite3.Error as error:
            raise RuntimeError(f"D1_ERROR: {error}: SQLITE_ERROR") from error
        names = [each[0] for each in found.description or ()]
        return {"results": [dict(zip(names, row, strict=True)) for row in found.fetchall()], "success": True}


class Database:
    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        for migration in sorted((ROOT / "migrations").glob("*.sql")):
            self._connection.executescript(migration.read_text())

    def prepare(self, sql: str) -> Statement:
        return Statement(self._connection, sql)

    async def batch(self, statements: list[Statement]) -> list[Mapping[str, Any]]:
        self._connection.execute("begin")
        try:
            answers = [statement.run() for statement in statements]
        except BaseException:
            self._connection.execute("rollback")
            raise
        self._connection.execute("commit")
        return answers


class Index:
    """Vectorize's binding on the local engine."""

    def __init__(self, service: VectorizeService) -> None:
        self._service = service

    async def query(self, vector: list[float], options: dict[str, Any]) -> Mapping[str, Any]:
        return self._service.query(INDEX, vector, options)

    async def upsert(self, vectors: list[dict[str, Any]]) -> Mapping[str, Any]:
        return self._service.write(INDEX, vectors, "upsert")

    async def getByIds(self, ids: list[str]) -> list[Mapping[str, Any]]:
        return list(self._service.get_by_ids(INDEX, ids))

    async def deleteByIds(self, ids: list[str]) -> Mapping[str, Any]:
        return self._service.delete_by_ids(INDEX, ids)

    async def describe(self) -> Mapping[str, Any]:
        return self._service.info(INDEX)


class Ai:
    def __init__(self, service: EmbeddingService) -> None:
        self._service = service

    async def run(self, model: str, inputs: dict[str, Any]) -> Mapping[str, Any]:
        return self._service.run(model, inputs)


class Queue:
    """Keeps what is sent; refuses when it is told to be overloaded."""

    def __init__(self) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        self.accepts = 1000

    async def send(self, body: Any, options: dict[str, Any] | None = None) -> None:
        await self.sendBatch([{"body": body}])

    async def sendBatch(self, messages: list[dict[str, Any]]) -> None:
        if len(self.batches) >= self.accepts:
            raise RuntimeError("Queue sendBatch failed: Queue is overloaded. Please back off.")
        self.batches.append(messages)


class Limiter:
    """The rate limit binding: so many calls per key."""

    def __init__(self, limit: int) -> None:
        self.left: dict[str, int] = {}
        self._limit = limit

    async def limit(self, options: dict[str, str]) -> dict[str, bool]:
        left = self.left.get(options["key"], self._limit)
        self.left[options["key"]] = left - 1
        return {"success": left > 0}
