"""Queues: durable, at least once, with retries and dead letter queues."""

import re
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from infra import catalog
from local import limits
from local.queues import settings as tables
from local.queues.broker import Broker
from local.queues.messages import new_message, new_messages
from local.queues.objects import (
    JsonObject,
    batch_size,
    consumer_object,
    consumer_row,
    entries,
    message_object,
    metrics_object,
    now,
    queue_object,
)
from local.queues.settings import Setting, settings
from local.queues.store import ConsumerRow, MessageRow, QueueRow, QueueStore


class QueueService:
    """All queues of the account, in the SQLite file `path`. Methods block: call them from a thread.

    `producers` names the Workers that send to a queue; the server sets it, for display only.
    Every refusal is an ApiError of `local.limits`.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.producers: Callable[[str], list[str]] = lambda _: []
        self._clock = clock
        self._store = QueueStore(path)
        self.broker = Broker(self._store, clock)

    def close(self) -> None:
        self._store.close()

    # -- queues -------------------------------------------------------------------------------

    def create_queue(self, name: Any, raw_settings: Any = None) -> JsonObject:
        longest = catalog.RESOURCE_NAME_CHARS.value
        if not isinstance(name, str) or not re.fullmatch(rf"[A-Za-z0-9_-]{{1,{longest}}}", name):
            raise limits.QUEUE_NAME(name=name)
        with self._store.transaction():
            self._check_name_free(name)
            made = settings(tables.QUEUE, raw_settings, limits.QUEUE_SETTINGS)
            at = now()
            row = QueueRow(uuid.uuid4().hex, name, at, at, paused=False, settings=made, purged_at=None)
            self._store.save_queue(row)
            return self._queue_object(row)

    def list_queues(self, name: str | None = None) -> list[JsonObject]:
        rows = self._store.queues("name", name) if name else self._store.queues()
        return [self._queue_object(row) for row in rows]

    def get_queue(self, queue: str) -> JsonObject:
        return self._queue_object(self.row(queue))

    def update_queue(self, queue: str, raw: JsonObject, partial: bool) -> JsonObject:
        """Rename or set up a queue; unless `partial`, what isn't given goes back to its default."""
        with self._store.transaction():
            row = self.row(queue)
            name = raw.get("queue_name") or row.name
            if name != row.name:
                self._check_name_free(name)
            given = raw.get("settings")
            made = settings(tables.QUEUE, given, limits.QUEUE_SETTINGS, row.settings if partial else None)
            paused = (given or {}).get("delivery_paused", row.paused if partial else False)
            row = row._replace(name=name, settings=made, paused=bool(paused), modified_on=now())
            self._store.save_queue(row)
        self.broker.changed()
        return self._queue_object(row)

    def delete_queue(self, queue: str) -> None:
        with self._store.transaction():
            self._store.delete_queue(self.row(queue).id)

    def metrics(self, queue: str) -> JsonObject:
        return metrics_object(self._store.metrics(self.row(queue).id))

    # -- consumers ----------------------------------------------------------------------------

    def create_consumer(self, queue: str, raw: JsonObject) -> JsonObject:
        with self._store.transaction():
            row = self.row(queue)
            if self._store.consumers(row.id):
                raise limits.CONSUMER_EXISTS(name=row.name)
            consumer = consumer_row(uuid.uuid4().hex, row.id, raw, now())
            self._store.save_consumer(consumer)
        self.broker.changed()
        return consumer_object(consumer, row.name)

    def update_consumer(self, queue: str, consumer: str, raw: JsonObject) -> JsonObject:
        """Replace a consumer's set-up: what isn't given goes back to its default."""
        with self._store.transaction():
            row = self.row(queue)
            old = self._consumer(row, consumer)
            merged = {"type": old.type, "script_name": old.script} | raw
            made = consumer_row(old.id, row.id, merged, old.created_on)
            self._store.save_consumer(made)
        self.broker.changed()
        return consumer_object(made, row.name)

    def get_consumer(self, queue: str, consumer: str) -> JsonObject:
        row = self.row(queue)
        return consumer_object(self._consumer(row, consumer), row.name)

    def list_consumers(self, queue: str) -> list[JsonObject]:
        row = self.row(queue)
        return [consumer_object(one, row.name) for one in self._store.consumers(row.id)]

    def delete_consumer(self, queue: str, consumer: str) -> None:
        with self._store.transaction():
            self._store.delete_consumer(self._consumer(self.row(queue), consumer).id)

    # -- messages -----------------------------------------------------------------------------

    def send(self, name: str, messages: Any) -> JsonObject:
        """Send from a Worker's binding, by the queue's name."""
        with self._store.transaction():
            found = self._store.queues("name", name)
            if not found:
                raise limits.QUEUE_NOT_FOUND(name=name)
            return self._send(found[0], new_messages(messages))

    def push(self, queue: str, raw: JsonObject) -> JsonObject:
        """Send one message over REST."""
        with self._store.transaction():
            return self._send(self.row(queue), [new_message(raw)])

    def push_batch(self, queue: str, raw: JsonObject) -> JsonObject:
        """Send a batch over REST; its own `delay_seconds` holds for messages without one."""
        with self._store.transaction():
            row = self.row(queue)
            return self._send(row, new_messages(raw.get("messages")), tables.delay(raw.get("delay_seconds")))

    def pull(self, queue: str, raw: JsonObject) -> JsonObject:
        """Lease messages to a pull consumer, which the queue must have."""
        with self._store.transaction():
            row = self.row(queue)
            consumer = next(iter(self._store.consumers(row.id)), None)
            if consumer is None or consumer.type != "http_pull":
                raise limits.PULL_DISABLED()
            size = batch_size(raw)
            timeout = Setting(consumer.settings["visibility_timeout_ms"], 1, 12 * 3_600_000)
            # The documentation's own examples leave out the unit.
            given = raw.get("visibility_timeout_ms", raw.get("visibility_timeout"))
            ms = tables.number("visibility_timeout_ms", given, timeout, limits.CONSUMER_SETTINGS) or 0
            leased = self.broker.lease(row, consumer, size, ms / 1000, "pull")
            metrics = metrics_object(self._store.metrics(row.id))
            return {
                "message_backlog_count": metrics["backlog_count"],
                "messages": [message_object(one) | {"lease_id": one.lease} for one in leased],
                "metadata": {"metrics": metrics},
            }

    def ack(self, queue: str, raw: JsonObject) -> JsonObject:
        """Acknowledge or retry pulled messages; a lease that has run out is still taken."""
        with self._store.transaction():
            row = self.row(queue)
            consumer = next(iter(self._store.consumers(row.id)), None)
            warnings: dict[str, str] = {}
            acked = [one for _, one in self._leased(row, raw.get("acks"), warnings)]
            retried = self._leased(row, raw.get("retries"), warnings)
            for message in acked:
                self._store.remove(message)
            for entry, message in retried:
                self.broker.retry(row, consumer, message, tables.delay(entry.get("delay_seconds")))
        self.broker.changed()
        return {"ackCount": len(acked), "retryCount": len(retried), "warnings": warnings}

    def peek(self, queue: str, raw: JsonObject) -> JsonObject:
        """The oldest messages, without leasing them."""
        found = self._store.stored(self.row(queue).id, batch_size(raw))
        return {"messages": [message_object(one) | {"ref": one.id} for one in found]}

    def purge_messages(self, queue: str, raw: JsonObject) -> JsonObject:
        """Delete single messages by the `ref` that a peek gave."""
        warnings: dict[str, str] = {}
        with self._store.transaction():
            row = self.row(queue)
            for entry in entries(raw.get("refs"), "refs"):
                ref = str(entry.get("ref"))
                message = self._store.by_id(row.id, ref)
                if message is None:
                    warnings[ref] = "message does not exist"
                else:
                    self._store.remove(message)
        return {"errors": [], "warnings": warnings}

    def purge(self, queue: str) -> JsonObject:
        """Delete every message of a queue."""
        with self._store.transaction():
            row = self.row(queue)._replace(purged_at=now())
            self._store.clear(row.id)
            self._store.save_queue(row)
            return self._queue_object(row)

    def purge_status(self, queue: str) -> JsonObject:
        purged_at = self.row(queue).purged_at
        return {"started_at": purged_at or "", "completed": str(purged_at is not None).lower()}

    # -- inside -------------------------------------------------------------------------------

    def row(self, queue: str) -> QueueRow:
        found = self._store.queues("id", queue)
        if not found:
            raise limits.QUEUE_NOT_FOUND(name=queue)
        return found[0]

    def _check_name_free(self, name: str) -> None:
        if self._store.queues("name", name):
            raise limits.QUEUE_DUPLICATE(name=name)

    def _consumer(self, row: QueueRow, consumer: str) -> ConsumerRow:
        for one in self._store.consumers(row.id):
            if one.id == consumer:
                return one
        raise limits.CONSUMER_NOT_FOUND(id=consumer)

    def _send(self, row: QueueRow, messages: Iterable[Any], wait: int | None = None) -> JsonObject:
        default = row.settings["delivery_delay"] if wait is None else wait
        self._store.add(row.id, messages, self._clock(), default)
        self.broker.changed()
        return {"metadata": {"metrics": metrics_object(self._store.metrics(row.id))}}

    def _leased(
        self, row: QueueRow, raw: Any, warnings: dict[str, str]
    ) -> list[tuple[JsonObject, MessageRow]]:
        found = []
        for entry in entries(raw, "acks and retries"):
            lease = str(entry.get("lease_id"))
            message = self._store.by_id(row.id, lease.partition(".")[0])
            if message is None:
                warnings[lease] = "lease does not exist"
            else:
                found.append((entry, message))
        return found

    def _queue_object(self, row: QueueRow) -> JsonObject:
        return queue_object(row, self._store.consumers(row.id), self.producers(row.name))
