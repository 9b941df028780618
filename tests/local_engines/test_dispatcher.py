"""Delivery to Workers: batches, acks and retries one by one, failures, restarts."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from local.queues import Dispatcher, QueueService, Undeliverable

Message = dict[str, Any]
Handler = Callable[[list[Message]], Awaitable[dict[str, Any]]]
OK = {"outcome": "ok"}


@pytest.fixture
def service(tmp_path: Path) -> Any:
    made = QueueService(tmp_path / "queues.db")
    yield made
    made.close()


def consume(service: QueueService, **settings: Any) -> str:
    """A queue `ingest` consumed by Worker `docs`, with a dead letter queue; its id."""
    queue: str = service.create_queue("ingest")["queue_id"]
    service.create_queue("ingest-dlq")
    service.create_consumer(
        queue,
        {
            "type": "worker",
            "script_name": "docs",
            "dead_letter_queue": "ingest-dlq",
            "settings": {"max_wait_time_ms": 20} | settings,
        },
    )
    return queue


def send(service: QueueService, *bodies: Any) -> None:
    service.send("ingest", [{"body": body} for body in bodies])


def waiting(service: QueueService, name: str) -> int:
    count: int = service.metrics(service.list_queues(name)[0]["queue_id"])["backlog_count"]
    return count


class Worker:
    """Records what is delivered, and answers as `handler` says."""

    def __init__(self, handler: Handler | None = None) -> None:
        self._handler = handler
        self.batches: list[list[Message]] = []
        self.running = 0
        self.most_running = 0

    async def __call__(self, worker: str, queue: str, messages: list[Message]) -> dict[str, Any]:
        assert (worker, queue) == ("docs", "ingest")
        self.batches.append(messages)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            return await self._handler(messages) if self._handler else OK
        finally:
            self.running -= 1

    def deliveries(self) -> list[tuple[Any, int]]:
        return [(message["body"], message["attempts"]) for batch in self.batches for message in batch]


@asynccontextmanager
async def delivering(service: QueueService, worker: Worker) -> AsyncIterator[Dispatcher]:
    dispatcher = Dispatcher(service.broker, worker)
    task = asyncio.create_task(dispatcher.run())
    try:
        yield dispatcher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.01)


async def test_a_message_reaches_its_worker_and_is_gone_when_the_handler_returns(
    service: QueueService,
) -> None:
    consume(service)
    worker = Worker()
    async with delivering(service, worker):
        send(service, {"doc": 1})
        await until(lambda: waiting(service, "ingest") == 0)
    (message,) = worker.batches[0]
    assert (message["body"], message["attempts"], message["contentType"]) == ({"doc": 1}, 1, "json")
    assert abs(message["timestamp"] / 1000 - time.time()) < 60


async def test_paused_queues_keep_their_messages_until_they_go_on(service: QueueService) -> None:
    consume(service, batch_size=1)
    worker = Worker()
    async with delivering(service, worker) as dispatcher:
        dispatcher.pause(True)
        send(service, "a", "b")
        await asyncio.sleep(0.1)
        assert (worker.batches, waiting(service, "ingest")) == ([], 2)
        dispatcher.pause(False)
        await until(lambda: waiting(service, "ingest") == 0)
    assert sorted(worker.deliveries()) == [("a", 1), ("b", 1)]


async def test_a_full_batch_does_not_wait_and_a_partial_one_does(service: QueueService) -> None:
    consume(service, batch_size=3, max_wait_time_ms=400)
    worker = Worker()
    send(service, *range(7))
    async with delivering(service, worker):
        await until(lambda: len(worker.batches) == 2)
        assert [len(batch) for batch in worker.batches] == [3, 3]
        await until(lambda: len(worker.batches) == 3)
    assert [body for body, _ in worker.deliveries()] == list(range(7))


async def test_acks_and_retries_are_taken_message_by_message(service: QueueService) -> None:
    consume(service)

    async def handler(messages: list[Message]) -> dict[str, Any]:
        ids = {message["body"]: message["id"] for message in messages}
        retries = [{"id": ids["bad"]}] if messages[0]["attempts"] == 1 else []
        return OK | {"explicitAcks": [ids["good"]] if "good" in ids else [], "explicitRetries": retries}

    worker = Worker(handler)
    async with delivering(service, worker):
        send(service, "good", "bad", "neither")
        await until(lambda: waiting(service, "ingest") == 0)
    assert sorted(worker.deliveries()) == [("bad", 1), ("bad", 2), ("good", 1), ("neither", 1)]


async def test_an_exception_retries_what_was_not_acked(service: QueueService) -> None:
    consume(service)

    async def handler(messages: list[Message]) -> dict[str, Any]:
        if messages[0]["attempts"] > 1:
            return OK
        return {"outcome": "exception", "explicitAcks": [messages[0]["id"]]}

    worker = Worker(handler)
    async with delivering(service, worker):
        send(service, "acked", "open")
        await until(lambda: waiting(service, "ingest") == 0)
    assert worker.deliveries() == [("acked", 1), ("open", 1), ("open", 2)]


async def test_a_failed_call_of_the_worker_retries_all_and_ends_in_the_dead_letter_queue(
    service: QueueService,
) -> None:
    consume(service, max_retries=2)

    async def handler(_: list[Message]) -> dict[str, Any]:
        raise ConnectionError("the process is gone")

    worker = Worker(handler)
    async with delivering(service, worker):
        send(service, "a")
        await until(lambda: waiting(service, "ingest-dlq") == 1)
    assert worker.deliveries() == [("a", 1), ("a", 2), ("a", 3)]
    assert waiting(service, "ingest") == 0


async def test_retry_all_waits_as_long_as_it_says_and_ack_all_takes_all(service: QueueService) -> None:
    consume(service)
    times: list[float] = []

    async def handler(messages: list[Message]) -> dict[str, Any]:
        times.append(time.monotonic())
        if messages[0]["attempts"] == 1:
            return OK | {"retryAll": {"retry": True, "delaySeconds": 1}}
        return {"outcome": "exception", "ackAll": True}

    async with delivering(service, Worker(handler)):
        send(service, "a")
        await until(lambda: waiting(service, "ingest") == 0)
    assert times[1] - times[0] >= 1


async def test_the_consumers_retry_delay_holds_where_the_handler_names_none(service: QueueService) -> None:
    consume(service, retry_delay=1)
    times: list[float] = []

    async def handler(messages: list[Message]) -> dict[str, Any]:
        times.append(time.monotonic())
        retry = messages[0]["attempts"] == 1
        return OK | {"explicitRetries": [{"id": messages[0]["id"]}] if retry else []}

    async with delivering(service, Worker(handler)):
        send(service, "a")
        await until(lambda: waiting(service, "ingest") == 0)
    assert times[1] - times[0] >= 1


async def test_concurrency_is_what_the_consumer_allows(service: QueueService) -> None:
    consume(service, batch_size=1, max_concurrency=2)

    async def slow(_: list[Message]) -> dict[str, Any]:
        await asyncio.sleep(0.05)
        return OK

    worker = Worker(slow)
    async with delivering(service, worker):
        send(service, *range(8))
        await until(lambda: waiting(service, "ingest") == 0)
    assert worker.most_running == 2


async def test_a_worker_that_cannot_be_called_costs_no_attempt(service: QueueService) -> None:
    consume(service, max_retries=0)

    async def handler(messages: list[Message]) -> dict[str, Any]:
        if len(worker.batches) == 1:
            raise Undeliverable
        return OK

    worker = Worker(handler)
    async with delivering(service, worker):
        send(service, "a")
        await until(lambda: waiting(service, "ingest") == 0)
    assert worker.deliveries() == [("a", 1), ("a", 1)]
    assert waiting(service, "ingest-dlq") == 0


async def test_a_delivery_cut_off_by_a_restart_happens_again(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    first = QueueService(path)
    consume(first, max_retries=0)
    send(first, "a")
    started = asyncio.Event()

    async def never_ends(_: list[Message]) -> dict[str, Any]:
        started.set()
        await asyncio.Event().wait()
        return OK

    async with delivering(first, Worker(never_ends)):
        await asyncio.wait_for(started.wait(), 20)
    first.close()
    second, worker = QueueService(path), Worker()
    async with delivering(second, worker):
        await until(lambda: waiting(second, "ingest") == 0)
    second.close()
    assert worker.deliveries() == [("a", 1)]


async def test_a_paused_queue_keeps_its_messages_until_it_goes_on(service: QueueService) -> None:
    queue = consume(service)
    service.update_queue(queue, {"settings": {"delivery_paused": True}}, partial=True)
    worker = Worker()
    async with delivering(service, worker):
        send(service, "a")
        await asyncio.sleep(0.2)
        assert worker.batches == []
        service.update_queue(queue, {"settings": {"delivery_paused": False}}, partial=True)
        await until(lambda: waiting(service, "ingest") == 0)


async def test_a_poisonous_message_does_not_hold_up_its_neighbours(service: QueueService) -> None:
    consume(service, batch_size=2, max_retries=1)

    async def handler(messages: list[Message]) -> dict[str, Any]:
        return OK | {"explicitRetries": [{"id": m["id"]} for m in messages if m["body"] == "poison"]}

    worker = Worker(handler)
    async with delivering(service, worker):
        send(service, "poison", *range(5))
        await until(lambda: waiting(service, "ingest") == 0)
    assert waiting(service, "ingest-dlq") == 1
    assert sorted(body for body, _ in worker.deliveries() if body != "poison") == list(range(5))


async def test_a_consumer_made_after_the_messages_gets_them(service: QueueService) -> None:
    queue = service.create_queue("ingest")["queue_id"]
    worker = Worker()
    async with delivering(service, worker):
        send(service, "early")
        await asyncio.sleep(0.1)
        settings = {"max_wait_time_ms": 0}
        service.create_consumer(queue, {"type": "worker", "script_name": "docs", "settings": settings})
        await until(lambda: waiting(service, "ingest") == 0)
    assert worker.deliveries() == [("early", 1)]
