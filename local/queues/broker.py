"""Which messages are delivered when, and what happens to them afterwards."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from local.queues.store import ConsumerRow, Leaser, MessageRow, QueueRow, QueueStore

# `max_concurrency: null` leaves it to the platform; one machine has room for this many.
AUTO_CONCURRENCY = 4
# The longest that a consumer may run, after which nobody waits for its answer.
LEASE_SECONDS = 15 * 60

log = logging.getLogger(__name__)


class Batch(NamedTuple):
    """Leased messages of one queue, to be delivered to its Worker together."""

    queue: QueueRow
    consumer: ConsumerRow
    messages: list[MessageRow]


class Broker:
    """Leases and settles messages. Methods block, and are safe in any thread."""

    def __init__(self, store: QueueStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener`, from any thread, when something may be due earlier; returns the way to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def changed(self) -> None:
        for listener in list(self._listeners):
            listener()

    def recover(self) -> None:
        """After a start: what was being delivered when the last process ended is due again."""
        self._store.put_back_all(self._clock(), "worker")

    def batches(self, running: Mapping[str, int]) -> tuple[list[Batch], float | None]:
        """Lease every batch that is ready, and the seconds until there may be more (None: unknown).

        `running` counts the batches under way per queue id.
        """
        ready: list[Batch] = []
        waits: list[float] = []
        with self._store.transaction():
            queues = {row.id: row for row in self._store.queues() if not row.paused}
            for consumer in self._store.consumers():
                if consumer.type == "worker" and consumer.queue in queues:
                    queue = queues[consumer.queue]
                    free = (consumer.settings["max_concurrency"] or AUTO_CONCURRENCY) - running.get(
                        queue.id, 0
                    )
                    wait = self._fill(queue, consumer, free, ready)
                    waits += [] if wait is None else [wait]
        return ready, min(waits, default=None)

    def lease(
        self, queue: QueueRow, consumer: ConsumerRow, size: int, seconds: float, by: Leaser
    ) -> list[MessageRow]:
        """Up to `size` due messages; those without a retry left go to the dead letter queue instead."""
        now = self._clock()
        self._store.clear(queue.id, now - queue.settings["message_retention_period"])
        while True:
            due = self._store.due(queue.id, now, size)
            spent = [one for one in due if one.attempts > consumer.settings["max_retries"]]
            for message in spent:
                self._bury(consumer, message)
            if not spent:
                return self._store.lease(due, now + seconds, by)

    def retry(
        self, queue: QueueRow, consumer: ConsumerRow | None, message: MessageRow, delay: int | None
    ) -> None:
        """Deliver again after `delay` seconds (None: the consumer's own), or bury when that was the last."""
        if consumer is None:
            self._store.put_back(message, self._clock() + (delay or 0))
        elif message.attempts > consumer.settings["max_retries"]:
            self._bury(consumer, message)
        else:
            wait = consumer.settings["retry_delay"] if delay is None else delay
            self._store.put_back(message, self._clock() + wait)

    def settle(self, batch: Batch, result: Mapping[str, Any]) -> None:
        """Apply what a Worker's queue handler said.

        `result` is `{outcome, ackAll, retryAll: {retry, delaySeconds?}, explicitAcks: [id],
        explicitRetries: [{id, delaySeconds?}]}`. Any outcome but "ok" retries what is not acked. After
        a normal return a message that was neither acked nor retried is acked.
        """
        acked = set(result.get("explicitAcks") or ())
        retried = {one["id"]: one.get("delaySeconds") for one in result.get("explicitRetries") or ()}
        failed = result.get("outcome") != "ok"
        retry_all = result.get("retryAll") or {}
        rest_retried = not result.get("ackAll") and (failed or bool(retry_all.get("retry")))
        with self._store.transaction():
            for message in batch.messages:
                if message.id in retried:
                    self.retry(batch.queue, batch.consumer, message, retried[message.id])
                elif message.id not in acked and rest_retried:
                    self.retry(batch.queue, batch.consumer, message, retry_all.get("delaySeconds"))
                else:
                    self._store.remove(message)

    def give_back(self, batch: Batch, seconds: float) -> None:
        """Undo a delivery that never reached the Worker; the messages are due again after `seconds`."""
        with self._store.transaction():
            for message in batch.messages:
                self._store.put_back(message, self._clock() + seconds, uncount=True)

    def _fill(self, queue: QueueRow, consumer: ConsumerRow, free: int, ready: list[Batch]) -> float | None:
        size, patience = (
            int(consumer.settings["batch_size"]),
            float(consumer.settings["max_wait_time_ms"]) / 1000,
        )
        for _ in range(free):
            now = self._clock()
            backlog = self._store.backlog(queue.id, now, size)
            if backlog.due == 0 or backlog.oldest is None:
                return None if backlog.following is None else backlog.following - now
            if backlog.due < size and backlog.oldest + patience > now:
                return backlog.oldest + patience - now
            leased = self.lease(queue, consumer, size, LEASE_SECONDS, "worker")
            if leased:
                ready.append(Batch(queue, consumer, leased))
        # All places are taken: the end of a running batch looks again.
        return None

    def _bury(self, consumer: ConsumerRow, message: MessageRow) -> None:
        dead = consumer.dead_letter_queue
        found = self._store.queues("name", dead) if dead else []
        if found:
            self._store.move(message, found[0].id, self._clock())
            self.changed()
            return
        self._store.remove(message)
        log.warning(
            "message %s is deleted: its retries ran out and there is no dead letter queue", message.id
        )
