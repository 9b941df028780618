"""The queue's consumer: a verdict for each message, few calls for all."""

from typing import Any

import pytest

from tests.worker_core.platform_bindings import Batch, Message, Platform


@pytest.fixture(autouse=True)
def no_waiting(worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.retries, "DELAYS", (0, 0))


def _documents(count: int, **given: Any) -> list[Message]:
    return [Message({"doc": {"id": f"q{at}", "body": f"Queued text {at}.", **given}}) for at in range(count)]


async def _consume(worker: Any, b: Any, messages: list[Message]) -> None:
    await worker.consumer.consume(b, Batch(messages))
    assert all(message.acked != (message.retried is not None) for message in messages), "one verdict each"


async def test_a_batch_is_embedded_and_written_in_one_call_each(
    worker: Any, b: Any, platform: Platform
) -> None:
    messages = _documents(100)
    await _consume(worker, b, messages)
    assert all(message.acked for message in messages)
    assert (platform.calls["ai"], platform.calls["vectorize"]) == (1, 1)
    assert len(platform.rows()) == 100


async def test_poison_goes_to_the_dead_letters_at_once_and_its_neighbours_are_indexed(
    worker: Any, b: Any, platform: Platform
) -> None:
    good = _documents(5)
    poison = {
        "no id": {"body": "x"},
        "unknown field": {"id": "p1", "body": "x", "metadata": {"colour": "red"}},
        "too long an id": {"id": "x" * 65, "body": "x"},
        "too many tags": {"id": "p2", "body": "x", "tags": ["a", "b", "c"]},
        "too large": {"id": "p3", "body": "x" * 11_000},
        "no document": "text",
    }
    bad = [Message({"doc": raw}) for raw in poison.values()]
    await _consume(worker, b, [bad[0], *good, *bad[1:]])
    assert all(message.acked for message in [*good, *bad])
    assert platform.calls["ai"] == 1
    assert [
        each["body"]["original"]["doc"]
        for each in platform.dead
        if each["body"]["original"]["doc"] != poison["too large"]
    ] == [raw for name, raw in poison.items() if name != "too large"]
    reasons = {each["body"]["reason"] for each in platform.dead}
    assert len(reasons) == len(poison)
    assert all(
        each["body"]["error"]["status"] in (413, 422) and each["body"]["attempts"] == 1
        for each in platform.dead
    )


@pytest.mark.parametrize(
    "body", [None, "text", 7, [], {}, {"kind": "other"}, {"kind": "verify"}, {"kind": "reindex", "ids": [1]}]
)
async def test_what_is_no_message_of_ours_is_buried(
    worker: Any, b: Any, platform: Platform, body: Any
) -> None:
    message = Message(body)
    await _consume(worker, b, [message])
    assert message.acked
    assert platform.dead[0]["body"]["original"] == body


@pytest.mark.parametrize("service", ["ai", "vectorize", "d1"])
async def test_what_may_succeed_later_is_tried_again_with_growing_delay(
    worker: Any, b: Any, platform: Platform, service: str
) -> None:
    await worker.model_state.current(b)
    delays = []
    for attempts in (1, 2, 3, 9):
        platform.faults.before[service] = [RuntimeError("Network connection lost.")] * 3
        messages = [Message(each.body, attempts) for each in _documents(3)]
        await _consume(worker, b, messages)
        delays.append({message.retried for message in messages})
    assert delays == [{10}, {20}, {40}, {900}]
    assert platform.dead == []
    messages = _documents(3)
    await _consume(worker, b, messages)
    assert all(message.acked for message in messages)


async def test_messages_wait_while_the_dimensions_do_not_match(
    worker: Any, b: Any, platform: Platform
) -> None:
    await worker.core.get_stats(b)
    platform.set_meta(space=platform.meta()["space"].replace('"dims":384', '"dims":768'))
    worker.model_state.forget()
    messages = _documents(2)
    await _consume(worker, b, messages)
    assert [message.retried for message in messages] == [10, 10]
    assert platform.dead == []


async def test_a_message_is_kept_if_the_dead_letter_queue_fails(
    worker: Any, b: Any, platform: Platform
) -> None:
    platform.faults.before["queue"] = [RuntimeError("Queue is overloaded. Please back off.")]
    message = Message({"doc": {"id": "a"}})
    await _consume(worker, b, [message])
    assert message.retried == 10


async def test_a_message_too_large_for_its_reason_is_left_to_the_retries(
    worker: Any, b: Any, platform: Platform
) -> None:
    message = Message({"doc": {"id": "a", "body": "x" * 127_700}})
    await _consume(worker, b, [message])
    assert message.retried == 10
    assert platform.dead == []


async def test_delivering_everything_again_changes_nothing(worker: Any, b: Any, platform: Platform) -> None:
    await _consume(worker, b, _documents(20))
    rows, embedded, written = platform.rows(), platform.calls["ai"], platform.calls["vectorize"]
    again = _documents(20)
    await _consume(worker, b, again)
    assert all(message.acked for message in again)
    assert (platform.rows(), platform.calls["ai"], platform.calls["vectorize"]) == (rows, embedded, written)


async def test_poison_in_every_batch_costs_no_further_call(worker: Any, b: Any, platform: Platform) -> None:
    messages = _documents(200)
    for at in range(0, 200, 10):
        messages[at].body["doc"]["metadata"] = {"undeclared": at}
        await _consume(worker, b, messages[at : at + 10])
    assert all(message.acked for message in messages)
    assert (len(platform.rows()), len(platform.dead)) == (180, 20)
    assert (platform.calls["ai"], platform.calls["vectorize.upsert"]) == (20, 20)
