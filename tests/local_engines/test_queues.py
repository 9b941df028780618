"""Queues as a service: sending, pulling, retries, dead letters, and what a restart keeps."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from local.envelope import ApiError
from local.queues import QueueService


def make(service: QueueService, name: str = "ingest", **consumer: Any) -> str:
    """A queue with a dead letter queue `<name>-dlq` and one consumer; its id."""
    queue: str = service.create_queue(name)["queue_id"]
    service.create_queue(f"{name}-dlq")
    set_up = {"type": "http_pull", "dead_letter_queue": f"{name}-dlq"} | consumer
    service.create_consumer(queue, set_up)
    return queue


def bodies(answer: dict[str, Any]) -> list[Any]:
    return [json.loads(base64.b64decode(message["body"])) for message in answer["messages"]]


def waiting(service: QueueService, name: str) -> int:
    (queue,) = service.list_queues(name)
    count: int = service.metrics(queue["queue_id"])["backlog_count"]
    return count


def test_a_pulled_message_is_leased_until_its_timeout(queue_service: QueueService, clock: Any) -> None:
    queue = make(queue_service)
    queue_service.send("ingest", [{"body": {"id": 1}}])
    first = queue_service.pull(queue, {"visibility_timeout_ms": 5000})
    assert bodies(first) == [{"id": 1}]
    assert first["messages"][0]["attempts"] == 1
    assert queue_service.pull(queue, {})["messages"] == []
    clock.now += 5
    assert queue_service.pull(queue, {})["messages"][0]["attempts"] == 2


def test_an_acknowledged_message_is_gone_and_a_retried_one_comes_back(
    queue_service: QueueService, clock: Any
) -> None:
    queue = make(queue_service)
    queue_service.send("ingest", [{"body": "a"}, {"body": "b"}])
    first, second = queue_service.pull(queue, {})["messages"]
    retries = [{"lease_id": second["lease_id"], "delay_seconds": 10}]
    answer = queue_service.ack(queue, {"acks": [{"lease_id": first["lease_id"]}], "retries": retries})
    assert answer == {"ackCount": 1, "retryCount": 1, "warnings": {}}
    assert queue_service.pull(queue, {})["messages"] == []
    clock.now += 10
    assert bodies(queue_service.pull(queue, {})) == ["b"]


def test_a_lease_that_ran_out_is_still_acknowledged_and_an_unknown_one_warned_of(
    queue_service: QueueService, clock: Any
) -> None:
    queue = make(queue_service)
    queue_service.send("ingest", [{"body": "a"}])
    (message,) = queue_service.pull(queue, {})["messages"]
    clock.now += 3600
    acks = [{"lease_id": message["lease_id"]}, {"lease_id": "nope"}]
    answer = queue_service.ack(queue, {"acks": acks})
    assert (answer["ackCount"], list(answer["warnings"])) == (1, ["nope"])
    assert waiting(queue_service, "ingest") == 0


def test_a_message_without_retries_left_goes_to_the_dead_letter_queue(
    queue_service: QueueService, clock: Any
) -> None:
    queue = make(queue_service, settings={"max_retries": 2})
    queue_service.send("ingest", [{"body": "poison"}])
    for attempt in (1, 2, 3):
        (message,) = queue_service.pull(queue, {})["messages"]
        assert message["attempts"] == attempt
        queue_service.ack(queue, {"retries": [{"lease_id": message["lease_id"]}]})
    assert waiting(queue_service, "ingest") == 0
    (dead,) = queue_service.list_queues("ingest-dlq")
    (message,) = queue_service.peek(dead["queue_id"], {})["messages"]
    assert (json.loads(base64.b64decode(message["body"])), message["attempts"]) == ("poison", 0)


def test_a_lease_running_out_for_the_last_time_ends_in_the_dead_letter_queue(
    queue_service: QueueService, clock: Any
) -> None:
    queue = make(queue_service, settings={"max_retries": 0})
    queue_service.send("ingest", [{"body": "lost"}, {"body": "fine"}])
    queue_service.pull(queue, {"batch_size": 1})
    clock.now += 3600
    assert bodies(queue_service.pull(queue, {})) == ["fine"]
    assert waiting(queue_service, "ingest-dlq") == 1


def test_without_a_dead_letter_queue_a_spent_message_is_deleted(queue_service: QueueService) -> None:
    queue = make(queue_service, dead_letter_queue=None, settings={"max_retries": 0})
    queue_service.send("ingest", [{"body": "a"}])
    (message,) = queue_service.pull(queue, {})["messages"]
    queue_service.ack(queue, {"retries": [{"lease_id": message["lease_id"]}]})
    assert waiting(queue_service, "ingest") == 0
    assert waiting(queue_service, "ingest-dlq") == 0


def test_a_delayed_message_waits(queue_service: QueueService, clock: Any) -> None:
    queue = make(queue_service)
    queue_service.send("ingest", [{"body": "later", "delaySeconds": 30}, {"body": "now"}])
    assert bodies(queue_service.pull(queue, {})) == ["now"]
    clock.now += 30
    assert "later" in bodies(queue_service.pull(queue, {}))


def test_a_queues_own_delay_holds_for_messages_without_one(queue_service: QueueService, clock: Any) -> None:
    queue = make(queue_service)
    queue_service.update_queue(queue, {"settings": {"delivery_delay": 20}}, partial=True)
    queue_service.send("ingest", [{"body": "default"}, {"body": "now", "delaySeconds": 0}])
    assert bodies(queue_service.pull(queue, {})) == ["now"]
    clock.now += 20
    assert "default" in bodies(queue_service.pull(queue, {}))


def test_messages_outlive_neither_their_retention_nor_a_purge(
    queue_service: QueueService, clock: Any
) -> None:
    queue = make(queue_service)
    queue_service.update_queue(queue, {"settings": {"message_retention_period": 60}}, partial=True)
    queue_service.send("ingest", [{"body": "old"}])
    clock.now += 61
    queue_service.send("ingest", [{"body": "new"}])
    assert bodies(queue_service.pull(queue, {})) == ["new"]
    assert queue_service.purge_status(queue)["completed"] == "false"
    queue_service.purge(queue)
    assert waiting(queue_service, "ingest") == 0
    assert queue_service.purge_status(queue)["completed"] == "true"


def test_a_peek_shows_messages_without_leasing_them(queue_service: QueueService) -> None:
    queue = make(queue_service)
    queue_service.send("ingest", [{"body": "a"}, {"body": "b"}])
    seen = queue_service.peek(queue, {"batch_size": 1})["messages"]
    assert [one["attempts"] for one in seen] == [0]
    gone = queue_service.purge_messages(queue, {"refs": [{"ref": seen[0]["ref"]}, {"ref": "nope"}]})
    assert gone["warnings"] == {"nope": "message does not exist"}
    assert bodies(queue_service.pull(queue, {})) == ["b"]


def test_bodies_come_back_as_their_content_type_says(queue_service: QueueService) -> None:
    queue = make(queue_service)
    binary = base64.b64encode(b"\x00\xff").decode()
    queue_service.send(
        "ingest",
        [
            {"body": "plain é", "contentType": "text"},
            {"body": binary, "contentType": "bytes"},
            {"body": {"é": 1}, "contentType": "json"},
        ],
    )
    found = queue_service.pull(queue, {})["messages"]
    assert [one["metadata"]["CF-Content-Type"] for one in found] == ["text", "bytes", "json"]
    assert found[0]["body"] == "plain é"
    assert base64.b64decode(found[1]["body"]) == b"\x00\xff"
    assert json.loads(base64.b64decode(found[2]["body"])) == {"é": 1}


@pytest.mark.parametrize(
    "message",
    [
        {"contentType": "text"},
        {"body": 1, "contentType": "text"},
        {"body": "no base64!", "contentType": "bytes"},
        {"body": "x", "contentType": "xml"},
        {"body": "x", "delaySeconds": -1},
        {"body": "x", "delaySeconds": "soon"},
    ],
)
def test_a_malformed_message_is_refused_and_nothing_sent(queue_service: QueueService, message: Any) -> None:
    make(queue_service)
    with pytest.raises(ApiError):
        queue_service.send("ingest", [{"body": "good"}, message])
    assert waiting(queue_service, "ingest") == 0


def test_pulling_needs_a_pull_consumer(queue_service: QueueService) -> None:
    queue = make(queue_service, type="worker", script_name="docs")
    with pytest.raises(ApiError, match="http_pull mode"):
        queue_service.pull(queue, {})


def test_a_queue_has_one_consumer(queue_service: QueueService) -> None:
    queue = make(queue_service)
    with pytest.raises(ApiError) as refusal:
        queue_service.create_consumer(queue, {"type": "http_pull"})
    assert refusal.value.code == 11004


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 0),
        ("batch_size", 101),
        ("max_retries", 101),
        ("max_wait_time_ms", 60_001),
        ("max_concurrency", 251),
        ("retry_delay", -1),
        ("batch_size", "ten"),
        ("batch_size", 1.5),
    ],
)
def test_consumer_settings_out_of_range_are_refused(
    queue_service: QueueService, name: str, value: Any
) -> None:
    queue = queue_service.create_queue("ingest")["queue_id"]
    with pytest.raises(ApiError, match=name) as refusal:
        queue_service.create_consumer(
            queue, {"type": "worker", "script_name": "docs", "settings": {name: value}}
        )
    assert refusal.value.code == 100127
    assert queue_service.list_consumers(queue) == []


def test_messages_leases_and_set_up_survive_a_restart(tmp_path: Path, clock: Any) -> None:
    path = tmp_path / "kept.db"
    first = QueueService(path, clock=clock)
    queue = make(first, settings={"visibility_timeout_ms": 60_000})
    first.send("ingest", [{"body": "leased"}, {"body": "free"}, {"body": "late", "delaySeconds": 120}])
    lease = first.pull(queue, {"batch_size": 1})["messages"][0]["lease_id"]
    first.close()
    second = QueueService(path, clock=clock)
    assert second.get_queue(queue)["consumers"][0]["dead_letter_queue"] == "ingest-dlq"
    assert bodies(second.pull(queue, {})) == ["free"]
    assert second.ack(queue, {"acks": [{"lease_id": lease}]})["ackCount"] == 1
    clock.now += 120
    assert "late" in bodies(second.pull(queue, {}))
    second.close()


def test_a_deleted_queue_takes_its_messages_along(queue_service: QueueService) -> None:
    queue = make(queue_service)
    queue_service.send("ingest", [{"body": "a"}])
    queue_service.delete_queue(queue)
    with pytest.raises(ApiError) as missing:
        queue_service.get_queue(queue)
    assert missing.value.status == 404
    again = queue_service.create_queue("ingest")["queue_id"]
    assert queue_service.metrics(again)["backlog_count"] == 0
