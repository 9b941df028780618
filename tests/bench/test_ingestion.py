"""A thousand documents through the queue of a deployed Worker, ten of them poison."""

import json
import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from cloudflare import Cloudflare

from bench import ingestion
from bench.ingestion import Ingestion, IngestQueue
from bench.operations import document, wait_for
from tests.deployed import Deployed

NAMES = "pydocs-local"
GOOD, BATCH = 990, 10
# What the design allows for 1,000 documents in batches of ten.
ALLOWED = 110
Row = dict[str, Any]


def poison(run: str) -> dict[str, Any]:
    """Messages that can never succeed, by what their reasons have to name."""
    doc = document(f"{run}-poison")
    metadata = {"words": 6}
    return {
        "a doc": {"hello": run},
        "its ids": {"kind": "reindex", "ids": run},
        "id = ''": {"doc": doc | {"id": ""}},
        "65 UTF-8 bytes": {"doc": doc | {"id": "x" * 65}},
        "body is missing": {"doc": {"id": doc["id"]}},
        "metadata.author": {"doc": doc | {"metadata": {"author": "Ann"}}},
        "metadata.chapter": {"doc": doc | {"metadata": metadata | {"chapter": "appendix"}}},
        "metadata.words": {"doc": doc | {"metadata": {"words": "six"}}},
        "tags": {"doc": doc | {"tags": ["a", "b", "c"]}},
        "10240": {"doc": doc | {"body": "word " * 2400}},
    }


class Delivered(NamedTuple):
    """A thousand messages, sent twice: what each round took, and what was there after it."""

    documents: list[dict[str, Any]]
    poison: dict[str, Any]
    first: Ingestion
    embedded: int
    rows: list[Row]
    contents: list[Row]
    dead: list[Row]
    again: Ingestion
    rows_again: list[Row]
    contents_again: list[Row]


@pytest.fixture(scope="module")
def client(deployed: Deployed) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {deployed.key}"}
    with httpx.Client(base_url=deployed.url, headers=headers, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def delivered(deployed: Deployed, client: httpx.Client) -> Iterator[Delivered]:
    run = secrets.token_hex(4)
    documents, bad = ingestion.documents(run, GOOD), poison(run)
    queue = IngestQueue(deployed.cloudflare, f"{NAMES}-ingest")

    def send() -> None:
        # One bad message among every hundred, in the middle: its neighbours share a batch with it.
        for good, worse in zip(ingestion.batches(documents), bad.values(), strict=True):
            ingestion.enqueue(client, good[:55])
            queue.send([worse])
            ingestion.enqueue(client, good[55:])
        queue.drain()

    def rows() -> list[Row]:
        return stored(deployed, f"bench/{run}-%")

    def contents() -> list[Row]:
        # Some of everywhere, both ends included: reading all takes longer than writing it.
        ids = [each["id"] for each in documents[::43]]
        for doc_id in ids:
            wait_for(doc_id)(client)
        return [client.get(f"/v1/docs/{doc_id}").json() for doc_id in ids]

    since = len(log(deployed))
    try:
        first = ingestion.measure(deployed.cloudflare, "first", send)
        seen = (embedded(deployed, since), rows(), contents(), dead_letters(deployed))
        again = ingestion.measure(deployed.cloudflare, "again", send)
        yield Delivered(documents, bad, first, *seen, again, rows(), contents())
    finally:
        queue.close()
        deployed.cfrag("dlq", "drop", "--all", "--yes", "--stack", "local")
        ingestion.remove(client, [each["id"] for each in documents])


def stored(deployed: Deployed, like: str) -> list[Row]:
    """The rows of D1, without the Worker."""
    api = deployed.cloudflare.api
    with Cloudflare(api_token=api.token, base_url=api.base_url) as account:
        (database,) = account.d1.database.list(account_id=api.account_id, name=f"{NAMES}-db")
        (result,) = account.d1.database.query(
            str(database.uuid),
            account_id=api.account_id,
            sql="SELECT * FROM documents WHERE id LIKE ? ORDER BY id",
            params=[like],
        )
    return [dict(row) for row in result.results or []]  # type: ignore[call-overload]


def dead_letters(deployed: Deployed) -> list[Row]:
    done = deployed.cfrag("dlq", "list", "--json", "--stack", "local")
    assert done.returncode == 0, done.stderr
    letters: list[Row] = json.loads(done.stdout)["messages"]
    return letters


def log(deployed: Deployed) -> list[str]:
    path = deployed.home / f"local/logs/{NAMES}-worker.log"
    return path.read_text().splitlines()


def embedded(deployed: Deployed, since: int) -> int:
    """Documents that queued batches have taken past validation, each as often as it was."""
    lines = [json.loads(line) for line in log(deployed)[since:]]
    batches = [line for line in lines if line.get("source") == "queue"]
    return sum(line["documents"] - line["failed"] for line in batches)


def test_all_good_documents_are_indexed_and_nothing_else(delivered: Delivered) -> None:
    assert {row["id"] for row in delivered.rows} == {each["id"] for each in delivered.documents}
    assert all(row["content_hash"] and row["pending_hash"] is None for row in delivered.rows)
    by_id = {each["id"]: each for each in delivered.documents}
    for found in delivered.contents:
        assert found["state"] == "indexed"
        assert {name: found[name] for name in by_id[found["id"]]} == by_id[found["id"]]


def test_each_poison_message_is_a_dead_letter_with_its_reason(delivered: Delivered) -> None:
    reasons = {json.dumps(each["original"]): each["reason"] for each in delivered.dead}
    assert len(delivered.dead) == len(delivered.poison)
    for named, message in delivered.poison.items():
        assert named in reasons[json.dumps(message)]
    assert {each["attempts"] for each in delivered.dead} == {1}


def test_a_thousand_messages_take_at_most_110_calls_of_ai_and_110_upserts(delivered: Delivered) -> None:
    assert GOOD / BATCH <= delivered.first.calls.ai <= ALLOWED
    assert GOOD / BATCH <= delivered.first.upserts <= ALLOWED


def test_no_good_document_is_embedded_twice_because_of_its_neighbour(delivered: Delivered) -> None:
    assert delivered.embedded == GOOD


def test_delivering_everything_again_changes_nothing(delivered: Delivered) -> None:
    assert (delivered.again.calls.ai, delivered.again.upserts) == (0, 0)
    assert delivered.rows_again == delivered.rows
    assert delivered.contents_again == delivered.contents
