"""Delivers due messages to the Workers that consume them."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from local.queues.broker import Batch, Broker
from local.queues.messages import decoded

JsonObject = dict[str, Any]
# (worker, queue name, messages) -> the result that `Broker.settle` takes
Deliver = Callable[[str, str, list[JsonObject]], Awaitable[Mapping[str, Any]]]

# Before the next try where a Worker doesn't run at all.
UNDELIVERABLE_SECONDS = 1.0

log = logging.getLogger(__name__)


class Undeliverable(Exception):
    """Raised by `deliver` where the Worker can't be called at all: the delivery doesn't count."""


class Dispatcher:
    """One task that waits for messages, and one per batch under way.

    `deliver` calls the Worker's queue handler. Whatever it raises, `Undeliverable` apart, is a failed
    delivery: every message of the batch is retried.
    """

    def __init__(self, broker: Broker, deliver: Deliver) -> None:
        self._broker = broker
        self._deliver = deliver
        self._running: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._paused = False

    def pause(self, paused: bool) -> None:
        """Whether every queue keeps what is sent to it; batches under way come to their end."""
        self._paused = paused
        self._wake.set()

    async def run(self) -> None:
        """Deliver until cancelled; what is under way then is delivered again after the next start."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(self._wake.set)

        stop = self._broker.subscribe(wake)
        try:
            await asyncio.to_thread(self._broker.recover)
            while True:
                self._wake.clear()
                await self._sleep(await self._start_ready())
        finally:
            stop()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _start_ready(self) -> float | None:
        if self._paused:
            return None
        batches, wait = await asyncio.to_thread(self._broker.batches, dict(self._running))
        for batch in batches:
            self._running[batch.queue.id] += 1
            task = asyncio.create_task(self._handle(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return wait

    async def _sleep(self, seconds: float | None) -> None:
        # Not wait_for: it can lose a cancellation that arrives together with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _handle(self, batch: Batch) -> None:
        worker = str(batch.consumer.script)
        try:
            result = await self._deliver(worker, batch.queue.name, [_wire(one) for one in batch.messages])
        except Undeliverable:
            await asyncio.to_thread(self._broker.give_back, batch, UNDELIVERABLE_SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, no message may be lost
            log.warning("delivery of %d messages to %s failed: %s", len(batch.messages), worker, error)
            await asyncio.to_thread(self._broker.settle, batch, {"outcome": "exception"})
        else:
            await asyncio.to_thread(self._broker.settle, batch, result)
        finally:
            self._running[batch.queue.id] -= 1
            self._wake.set()


def _wire(message: Any) -> JsonObject:
    return {
        "id": message.id,
        "timestamp": int(message.sent_at * 1000),
        "attempts": message.attempts,
        "body": decoded(message.body, message.content_type),
        "contentType": message.content_type,
    }
