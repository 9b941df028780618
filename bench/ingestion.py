"""The ways in for many documents: one per request, a hundred per request, and through the queue."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import httpx
from cloudflare import Cloudflare

from bench.operations import Calls, document, post
from cfrag.local_process import Running
from infra.catalog import QUEUE_SEND_BATCH

# At 40 documents a second on the slowest machine that this ran on.
DRAIN_SECONDS = 120.0
_LOOK_SECONDS = 0.25

T = TypeVar("T")
Documents = Sequence[dict[str, Any]]


class Ingestion(NamedTuple):
    """What it took until all documents were indexed; `upserts` are those among the calls of Vectorize."""

    way: str
    calls: Calls
    upserts: int
    seconds: float


class IngestQueue:
    """The queue in front of a deployed Worker, by its name, through the official client."""

    def __init__(self, cloudflare: Running, name: str) -> None:
        api = cloudflare.api
        self.name, self._account = name, api.account_id
        self._client = Cloudflare(api_token=api.token, base_url=api.base_url, max_retries=0)
        found = (each for each in self._client.queues.list(account_id=api.account_id))
        self._id = next(str(each.queue_id) for each in found if each.queue_name == name)

    def close(self) -> None:
        self._client.close()

    def send(self, bodies: Iterable[Any]) -> None:
        """Messages as they are, unchecked."""
        self._client.queues.messages.bulk_push(
            self._id,
            account_id=self._account,
            messages=[{"body": body, "content_type": "json"} for body in bodies],
        )

    def backlog(self) -> int:
        """Messages that are not settled, those under way included."""
        metrics = self._client.queues.get_metrics(self._id, account_id=self._account)
        return int(metrics.backlog_count) if metrics else 0

    def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Wait until every message is settled. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while left := self.backlog():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} still holds {left} messages after {seconds:.0f} s")
            time.sleep(_LOOK_SECONDS)


def documents(run: str, count: int) -> list[dict[str, Any]]:
    """New documents, each with a text of its own."""
    return [document(f"{run}-{at}", f"Passage {at} of a run that is called {run}.") for at in range(count)]


def batches(given: Sequence[T]) -> Iterator[list[T]]:
    size = QUEUE_SEND_BATCH.value  # which is what a request of the service takes, too
    for at in range(0, len(given), size):
        yield list(given[at : at + size])


def one_by_one(client: httpx.Client, given: Documents) -> None:
    for each in given:
        post("/v1/ingest", each)(client).raise_for_status()


def in_batches(client: httpx.Client, given: Documents) -> None:
    for each in batches(given):
        post("/v1/ingest/batch", {"documents": each})(client).raise_for_status()


def enqueue(client: httpx.Client, given: Documents) -> None:
    for each in batches(given):
        post("/v1/internal/enqueue", {"documents": each})(client).raise_for_status()


def measure(cloudflare: Running, way: str, ingest: Callable[[], None]) -> Ingestion:
    """Run `ingest`, which returns when all is indexed, and count what the platform saw meanwhile."""
    cloudflare.call("POST", "/__local/calls/reset")
    started = time.monotonic()
    ingest()
    seconds = time.monotonic() - started
    seen = cloudflare.call("GET", "/__local/calls")
    calls = Calls(*(sum(seen[service].values()) for service in Calls._fields))
    return Ingestion(way, calls, seen["vectorize"].get("upsert", 0), seconds)


def compare(
    cloudflare: Running, client: httpx.Client, queue: IngestQueue, run: str, count: int
) -> list[Ingestion]:
    """Each way in with `count` new documents of its own."""

    def queued() -> None:
        enqueue(client, documents(f"{run}-queue", count))
        queue.drain()

    return [
        measure(cloudflare, "one per request", lambda: one_by_one(client, documents(f"{run}-one", count))),
        measure(cloudflare, "100 per request", lambda: in_batches(client, documents(f"{run}-batch", count))),
        measure(cloudflare, "through the queue", queued),
    ]


def remove(client: httpx.Client, ids: Sequence[str]) -> None:
    """Take documents away again, known or not."""
    for some in batches(ids):
        post("/v1/docs/delete", {"ids": some})(client).raise_for_status()
