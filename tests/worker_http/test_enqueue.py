"""Documents for the queue: legal messages in legal batches, and what happens to the rest."""

import json
from types import SimpleNamespace
from typing import Any

from .conftest import Client


def documents(count: int, size: int = 10) -> list[dict[str, Any]]:
    return [{"id": f"doc-{number}", "body": "x" * size} for number in range(count)]


async def test_each_document_becomes_a_message_of_its_own(client: Client, env: SimpleNamespace) -> None:
    document = {
        "id": "a",
        "title": "T",
        "body": "b",
        "tags": ["t"],
        "metadata": {"words": 1},
        "active": False,
    }
    answer = await client.post("/v1/internal/enqueue", json={"documents": [document]})
    assert answer.status_code == 202
    assert answer.json() == {"results": [{"id": "a", "status": "queued"}]}
    assert env.RAG_INGEST_QUEUE.batches == [[{"body": {"doc": document}, "contentType": "json"}]]


async def test_batches_stay_below_both_limits(client: Client, env: SimpleNamespace) -> None:
    await client.post("/v1/internal/enqueue", json={"documents": documents(100, 9_000)})
    batches = env.RAG_INGEST_QUEUE.batches
    assert [message["body"]["doc"]["id"] for batch in batches for message in batch] == [
        f"doc-{number}" for number in range(100)
    ]
    assert len(batches) == 4
    for batch in batches:
        assert len(batch) <= 100
        assert sum(len(json.dumps(message["body"])) for message in batch) <= 256_000


async def test_a_bad_or_oversized_document_fails_alone(client: Client, env: SimpleNamespace) -> None:
    entries = [
        {"id": "good", "body": "x"},
        {"id": "huge", "body": "x" * 128_000},
        {"id": "bad", "body": ""},
        7,
        {"id": "fine", "body": "y"},
    ]
    results = (await client.post("/v1/internal/enqueue", json={"documents": entries})).json()["results"]
    assert [(result["id"], result["status"]) for result in results] == [
        ("good", "queued"),
        ("huge", "failed"),
        ("bad", "failed"),
        (None, "failed"),
        ("fine", "queued"),
    ]
    assert [result["problem"]["status"] for result in results if "problem" in result] == [413, 422, 422]
    assert results[1]["problem"]["limit"] == 128_000
    (batch,) = env.RAG_INGEST_QUEUE.batches
    assert [message["body"]["doc"]["id"] for message in batch] == ["good", "fine"]


async def test_an_overloaded_queue_is_a_503_that_lists_what_is_left(
    client: Client, env: SimpleNamespace
) -> None:
    env.RAG_INGEST_QUEUE.accepts = 1
    answer = await client.post("/v1/internal/enqueue", json={"documents": documents(60, 9_000)})
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    taken = [message["body"]["doc"]["id"] for message in env.RAG_INGEST_QUEUE.batches[0]]
    left = answer.json()["notAccepted"]
    assert taken + left == [f"doc-{number}" for number in range(60)]
    assert left


async def test_more_than_a_hundred_or_none_are_refused(client: Client, env: SimpleNamespace) -> None:
    for count in (0, 101):
        answer = await client.post("/v1/internal/enqueue", json={"documents": documents(count)})
        assert answer.status_code == 422
        assert answer.json()["field"] == "documents"
    assert env.RAG_INGEST_QUEUE.batches == []


async def test_without_a_queue_it_is_a_503(client: Client, env: SimpleNamespace) -> None:
    del env.RAG_INGEST_QUEUE
    answer = await client.post("/v1/internal/enqueue", json={"documents": documents(1)})
    assert answer.status_code == 503
