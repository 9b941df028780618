"""The Queues REST API through the official SDK."""

import base64
import json
from typing import Any

import cloudflare
import pytest

ACCOUNT = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def queues(server: Any) -> Any:
    return server.client.queues


@pytest.fixture
def queue(queues: Any) -> str:
    made: str = queues.create(account_id=ACCOUNT, queue_name="ingest").queue_id
    return made


def test_a_queue_is_created_read_renamed_and_deleted(queues: Any, queue: str) -> None:
    found = queues.get(queue, account_id=ACCOUNT)
    assert (found.queue_name, found.consumers, found.producers_total_count) == ("ingest", [], 0)
    assert found.settings.message_retention_period == 345_600
    assert queues.update(queue, account_id=ACCOUNT, queue_name="renamed").queue_name == "renamed"
    assert [one.queue_name for one in queues.list(account_id=ACCOUNT)] == ["renamed"]
    assert queues.delete(queue, account_id=ACCOUNT).success is True
    assert list(queues.list(account_id=ACCOUNT)) == []
    with pytest.raises(cloudflare.NotFoundError):
        queues.get(queue, account_id=ACCOUNT)


def test_an_edit_changes_what_it_names_and_an_update_resets_the_rest(queues: Any, queue: str) -> None:
    queues.edit(queue, account_id=ACCOUNT, settings={"delivery_delay": 5})
    edited = queues.edit(queue, account_id=ACCOUNT, settings={"delivery_paused": True})
    assert (edited.settings.delivery_delay, edited.settings.delivery_paused) == (5, True)
    updated = queues.update(queue, account_id=ACCOUNT, queue_name="ingest")
    assert (updated.settings.delivery_delay, updated.settings.delivery_paused) == (0, False)


@pytest.mark.usefixtures("queue")
def test_a_queues_name_is_unique_and_wranglers_lookup_by_name_works(queues: Any, server: Any) -> None:
    with pytest.raises(cloudflare.ConflictError, match="11009"):
        queues.create(account_id=ACCOUNT, queue_name="ingest")
    queues.create(account_id=ACCOUNT, queue_name="other")
    found = server.rest("GET", "/queues?name=ingest&page=1").json()["result"]
    assert [one["queue_name"] for one in found] == ["ingest"]


@pytest.mark.parametrize("name", ["", "a b", "x" * 64])
def test_a_wrong_queue_name_is_refused(queues: Any, name: str) -> None:
    with pytest.raises(cloudflare.BadRequestError):
        queues.create(account_id=ACCOUNT, queue_name=name)


def test_a_worker_consumer_goes_round(queues: Any, queue: str, server: Any) -> None:
    made = queues.consumers.create(
        queue,
        account_id=ACCOUNT,
        type="worker",
        script_name="docs-worker",
        dead_letter_queue="ingest-dlq",
        settings={"batch_size": 20, "max_retries": 5},
    )
    raw = server.rest("GET", f"/queues/{queue}/consumers/{made.consumer_id}").json()["result"]
    assert raw["script"] == "docs-worker"
    assert raw["dead_letter_queue"] == "ingest-dlq"
    assert raw["settings"] == {
        "batch_size": 20,
        "max_concurrency": None,
        "max_retries": 5,
        "max_wait_time_ms": 5000,
        "retry_delay": 0,
    }
    updated = queues.consumers.update(
        made.consumer_id,
        account_id=ACCOUNT,
        queue_id=queue,
        type="worker",
        script_name="docs-worker",
        settings={"max_concurrency": 3},
    )
    assert (updated.consumer_id, updated.settings.max_concurrency) == (made.consumer_id, 3)
    assert updated.settings.batch_size == 10
    assert [one.consumer_id for one in queues.consumers.list(queue, account_id=ACCOUNT)] == [made.consumer_id]
    queues.consumers.delete(made.consumer_id, account_id=ACCOUNT, queue_id=queue)
    assert queues.get(queue, account_id=ACCOUNT).consumers_total_count == 0


def test_messages_are_pushed_pulled_and_acknowledged(queues: Any, queue: str) -> None:
    queues.consumers.create(
        queue, account_id=ACCOUNT, type="http_pull", settings={"visibility_timeout_ms": 30_000}
    )
    queues.messages.push(queue, account_id=ACCOUNT, body={"doc": 1}, content_type="json")
    pushed = queues.messages.bulk_push(
        queue,
        account_id=ACCOUNT,
        messages=[
            {"body": "two", "content_type": "text"},
            {"body": "late", "content_type": "text", "delay_seconds": 60},
        ],
    )
    assert pushed.metadata.metrics.backlog_count == 3
    pulled = queues.messages.pull(queue, account_id=ACCOUNT, batch_size=10, visibility_timeout_ms=10_000)
    first, second = pulled.messages
    assert (json.loads(base64.b64decode(first.body)), second.body) == ({"doc": 1}, "two")
    answer = queues.messages.ack(
        queue,
        account_id=ACCOUNT,
        acks=[{"lease_id": first.lease_id}],
        retries=[{"lease_id": second.lease_id, "delay_seconds": 0}],
    )
    assert (answer.ack_count, answer.retry_count) == (1, 1)
    (again,) = queues.messages.pull(queue, account_id=ACCOUNT).messages
    assert (again.body, again.attempts) == ("two", 2)


def test_a_queue_is_peeked_into_measured_and_purged(queues: Any, queue: str) -> None:
    for body in ("a", "b"):
        queues.messages.push(queue, account_id=ACCOUNT, body=body, content_type="text")
    first = queues.messages.peek(queue, account_id=ACCOUNT, batch_size=1).messages[0]
    assert first.body == "a"
    queues.messages.purge(queue, account_id=ACCOUNT, refs=[{"ref": first.ref}])
    assert queues.get_metrics(queue, account_id=ACCOUNT).backlog_count == 1
    with pytest.raises(cloudflare.BadRequestError, match="delete_messages_permanently"):
        queues.purge.start(queue, account_id=ACCOUNT)
    queues.purge.start(queue, account_id=ACCOUNT, delete_messages_permanently=True)
    assert queues.get_metrics(queue, account_id=ACCOUNT).backlog_count == 0
    assert queues.purge.status(queue, account_id=ACCOUNT).completed == "true"


def test_a_body_that_is_no_json_is_refused(queue: str, server: Any) -> None:
    answer = server.rest("POST", f"/queues/{queue}/messages", content=b"{")
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, 10208)
