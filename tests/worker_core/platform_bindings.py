"""The Worker's bindings on this machine's engines, as strict as the SDK's conversions and D1's limits."""

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from infra import catalog
from infra.bundle import migrations
from infra.bundle.statements import STATEMENTS
from local.ai.service import EmbeddingService
from local.envelope import ApiError
from local.vectorize.service import VectorizeService

Fault = Callable[[], Awaitable[None] | None]


@dataclass
class Faults:
    """What happens at calls: `before["ai.run"]`, `after["vectorize.upsert"]` …; each entry once, in order."""

    before: dict[str, list[Any]] = field(default_factory=dict)
    after: dict[str, list[Any]] = field(default_factory=dict)

    async def at(self, when: dict[str, list[Any]], name: str) -> None:
        for key in (name, name.partition(".")[0]):
            if when.get(key):
                fault = when[key].pop(0)
                if isinstance(fault, BaseException):
                    raise fault
                if (awaited := fault()) is not None:
                    await awaited
                return


class Platform:
    """One account: D1, Vectorize, Workers AI, queues, and counters of the calls to each."""

    def __init__(self, vectorize: VectorizeService, ai: EmbeddingService) -> None:
        self.vectorize, self.ai = vectorize, ai
        self.faults = Faults()
        self.calls: Counter[str] = Counter()
        self.sql = migrations.applied(migrations.files())
        self.sql.isolation_level = None
        self.sql.row_factory = sqlite3.Row
        self.queued: list[dict[str, Any]] = []
        self.dead: list[dict[str, Any]] = []

    async def call(self, name: str, work: Callable[[], Any]) -> Any:
        self.calls[name.partition(".")[0]] += 1
        self.calls[name] += 1
        await self.faults.at(self.faults.before, name)
        result = work()
        await self.faults.at(self.faults.after, name)
        return result

    def rows(self, query: str = "SELECT * FROM documents ORDER BY id") -> list[dict[str, Any]]:
        return [dict(row) for row in self.sql.execute(query)]

    def row(self, doc_id: str) -> dict[str, Any] | None:
        found = self.sql.execute("SELECT * FROM documents WHERE id = ?", [doc_id]).fetchone()
        return dict(found) if found else None

    def meta(self) -> dict[str, str]:
        return {row["key"]: row["value"] for row in self.sql.execute("SELECT key, value FROM meta")}

    def set_meta(self, **values: str) -> None:
        for key, value in values.items():
            self.sql.execute(STATEMENTS["meta_put"], [key, value])

    def pass_minutes(self, minutes: float) -> None:
        """Make all that is written in D1 older."""
        for column in ("pending_at", "deleted_at", "indexed_at", "lease_at"):
            self.sql.execute(f"UPDATE documents SET {column} = {column} - ?", [int(minutes * 60_000)])
        for key, member in (("sweep", "at"), ("space", "since")):
            if (text := self.meta().get(key)) is not None:
                value = json.loads(text)
                value[member] -= int(minutes * 60_000)
                if value.get("other"):
                    value["other"]["began"] -= int(minutes * 60_000)
                self.set_meta(**{key: json.dumps(value, separators=(",", ":"))})


def crossing(value: Any) -> Any:
    """A value as it arrives on the other side of a binding. Raises TypeError for what the SDK refuses."""
    if isinstance(value, tuple | bytearray):
        raise TypeError(f"{type(value)} cannot be sent over RPC.")
    if isinstance(value, dict):
        if any(not isinstance(key, str) for key in value):
            raise TypeError("keys of objects are strings")
        return {key: crossing(each) for key, each in value.items()}
    if isinstance(value, list):
        return [crossing(each) for each in value]
    if value is None or isinstance(value, bool | str | int | float):
        return json.loads(json.dumps(value, allow_nan=False))
    raise TypeError(f"{type(value)} has no JavaScript value")


class D1Statement:
    def __init__(self, database: "D1", sql: str, params: list[Any] | None = None) -> None:
        self.database, self.sql, self.params = database, sql, params or []

    def bind(self, *params: Any) -> "D1Statement":
        limit = catalog.D1_PARAMS.value
        if len(params) > limit:
            raise RuntimeError(
                f"D1_ERROR: too many SQL variables at offset 0: SQLITE_ERROR ({len(params)} > {limit})"
            )
        # JavaScript has one kind of number.
        numbers = [
            float(each) if isinstance(each, int) and not isinstance(each, bool) else each for each in params
        ]
        return D1Statement(self.database, self.sql, crossing(numbers))

    async def all(self) -> dict[str, Any]:
        result: dict[str, Any] = await self.database.platform.call("d1.all", self.execute)
        return result

    def execute(self) -> dict[str, Any]:
        wanted = max((int(number) for number in re.findall(r"\?(\d+)", self.sql)), default=0)
        if wanted != len(self.params):
            raise RuntimeError(
                f"D1_ERROR: Wrong number of parameter bindings: {wanted} for {len(self.params)}"
            )
        try:
            rows = self.database.platform.sql.execute(self.sql, self.params).fetchall()
        except sqlite3.Error as error:
            raise RuntimeError(f"D1_ERROR: {error}: SQLITE_ERROR") from error
        return {"results": [dict(row) for row in rows], "success": True, "meta": {}}


class D1:
    def __init__(self, platform: Platform) -> None:
        self.platform = platform

    def prepare(self, sql: str) -> D1Statement:
        return D1Statement(self, sql)

    async def batch(self, statements: list[D1Statement]) -> list[dict[str, Any]]:
        def transaction() -> list[dict[str, Any]]:
            self.platform.sql.execute("BEGIN")
            try:
                results = [statement.execute() for statement in statements]
            except BaseException:
                self.platform.sql.execute("ROLLBACK")
                raise
            self.platform.sql.execute("COMMIT")
            return results

        result: list[dict[str, Any]] = await self.platform.call("d1.batch", transaction)
        return result


class Vectorize:
    """A binding to one index; errors read as in the runtime."""

    def __init__(self, platform: Platform, index: str) -> None:
        self.platform, self.index = platform, index

    async def _call(self, operation: str, work: Callable[[], Any]) -> Any:
        try:
            return await self.platform.call(f"vectorize.{operation}", work)
        except ApiError as error:
            name = f"VECTOR_{operation.upper()}_ERROR"
            raise RuntimeError(f"{name} (code = {error.code}): {error.message}") from error

    async def query(self, vector: list[float], options: dict[str, Any]) -> Any:
        sent = crossing([vector, options])
        return await self._call("query", lambda: self.platform.vectorize.query(self.index, *sent))

    async def upsert(self, vectors: list[dict[str, Any]]) -> Any:
        sent, limit = crossing(vectors), catalog.VECTORIZE_UPSERT_BINDING.value
        if len(sent) > limit:
            raise RuntimeError(f"VECTOR_UPSERT_ERROR (code = 40007): max {limit}, got {len(sent)}")
        return await self._call("upsert", lambda: self.platform.vectorize.write(self.index, sent, "upsert"))

    async def getByIds(self, ids: list[str]) -> Any:
        sent = crossing(ids)
        return await self._call("getByIds", lambda: self.platform.vectorize.get_by_ids(self.index, sent))

    async def deleteByIds(self, ids: list[str]) -> Any:
        sent = crossing(ids)
        return await self._call(
            "deleteByIds", lambda: self.platform.vectorize.delete_by_ids(self.index, sent)
        )

    async def describe(self) -> Any:
        return await self._call("describe", lambda: self.platform.vectorize.info(self.index))


class Ai:
    def __init__(self, platform: Platform) -> None:
        self.platform = platform

    async def run(self, model: str, inputs: dict[str, Any]) -> Any:
        sent = crossing(inputs)
        try:
            return await self.platform.call("ai.run", lambda: self.platform.ai.run(model, sent))
        except ApiError as error:
            raise RuntimeError(f"{error.code}: {error.message}") from error


class Queue:
    """Keeps what is sent; a test takes it and hands it to the consumer."""

    def __init__(self, platform: Platform, messages: list[dict[str, Any]]) -> None:
        self.platform, self.messages = platform, messages

    async def send(self, body: Any, options: dict[str, Any] | None = None) -> None:
        await self.sendBatch([{"body": body, **(options or {})}])

    async def sendBatch(self, messages: list[dict[str, Any]]) -> None:
        sent = crossing(messages)
        sizes = [len(json.dumps(each["body"]).encode()) + 100 for each in sent]
        if len(sent) > catalog.QUEUE_SEND_BATCH.value or sum(sizes) > catalog.QUEUE_SEND_BATCH_BYTES.value:
            raise RuntimeError("Queue send failed: batch too large")
        if max(sizes, default=0) > catalog.QUEUE_MESSAGE_BYTES.value:
            raise RuntimeError("Queue send failed: message too large")
        await self.platform.call("queue.send", lambda: self.messages.extend(sent))


@dataclass
class Message:
    """A message as the consumer gets it; what became of it is in `acked` and `retried`."""

    body: Any
    attempts: int = 1
    acked: bool = False
    retried: int | None = None

    def ack(self) -> None:
        self.acked = True

    def retry(self, *, delaySeconds: int) -> None:
        self.retried = delaySeconds


@dataclass
class Batch:
    messages: list[Message]


async def drain(
    consume: Callable[[Any, Batch], Awaitable[None]], b: Any, platform: Platform, most: int = 200
) -> int:
    """Deliver queued messages, ten at a time and without delays, until none is left; how many there were."""
    delivered = 0
    waiting: list[Message] = []
    while (platform.queued or waiting) and delivered < most:
        waiting += [Message(each["body"]) for each in platform.queued]
        platform.queued.clear()
        batch, waiting = waiting[:10], waiting[10:]
        await consume(b, Batch(batch))
        delivered += len(batch)
        waiting += [Message(each.body, each.attempts + 1) for each in batch if each.retried is not None]
        assert all(each.acked or each.retried is not None for each in batch)
    return delivered
