"""Another model of equal dims through the real `pulumi up`, while the Worker is killed and AI fails.

Then the version before and this one in turn.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import httpx
import pytest

from tests.provider.support import LocalCloudflare
from tests.stack.checkout import RAG, Checkout, Service
from tests.stack.conftest import NewCheckout, cloudflare, new_checkout

__all__ = ["cloudflare", "new_checkout"]

pytestmark = pytest.mark.xdist_group("model-change")

BASE, GEMMA = "@cf/baai/bge-base-en-v1.5", "@cf/google/embeddinggemma-300m"
COUNT = 300
DOCUMENTS: dict[str, dict[str, Any]] = {
    f"n/{at:03}": {
        "id": f"n/{at:03}",
        "title": f"Number {at}",
        "body": f"Passage {at} speaks of the number {at} and of nothing else.",
        "tags": ["even" if at % 2 == 0 else "odd"],
        "metadata": {"chapter": f"c{at % 7}", "words": at},
    }
    for at in range(COUNT)
}
_DONE_SECONDS = 240


def _config(model: str) -> dict[str, Any]:
    return RAG | {"embedding": {"model": model}}


class Searches(NamedTuple):
    """What a running Worker said to searches: with as many hits as asked for, and anything else."""

    answered: list[str]
    wrong: list[str]


@contextmanager
def _searching(service: Service) -> Iterator[Searches]:
    """Search all the time; answers that are none of a running Worker (it was killed) do not count."""
    stop, searches = threading.Event(), Searches([], [])

    def search() -> None:
        while not stop.wait(0.3):
            try:
                answer = service.call("POST", "/v1/search", {"query": "the number 7", "topK": 3})
            except httpx.TransportError:
                continue
            right = answer.status_code == 200 and len(answer.json()["hits"]) == 3
            (searches.answered if right else searches.wrong).append(answer.text)

    thread = threading.Thread(target=search)
    thread.start()
    try:
        yield searches
    finally:
        stop.set()
        thread.join()


def _until_settled(service: Service, model: str) -> dict[str, Any]:
    end = time.monotonic() + _DONE_SECONDS
    while True:
        stats: dict[str, Any] = {}
        with suppress(httpx.TransportError):
            stats = service.call("GET", "/v1/stats").json()
        if stats.get("state") == "ok" and stats["documents"]["byModel"] == {model: COUNT}:
            return stats
        assert time.monotonic() < end, stats
        time.sleep(0.5)


def _contents(service: Service) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    cursor = ""
    while True:
        page = service.result("GET", f"/v1/docs?content=true&limit=20{cursor}")
        for each in page["documents"]:
            found[each["id"]] = {name: each[name] for name in ("id", "title", "body", "tags", "metadata")}
        if page["cursor"] is None:
            return found
        cursor = f"&cursor={page['cursor']}"


@pytest.fixture
def filled(new_checkout: NewCheckout, cloudflare: LocalCloudflare) -> Checkout:
    cloudflare.control("PUT", "/__local/settings", {"vectorizeDelaySeconds": 1})
    checkout = new_checkout("drift", _config(BASE))
    checkout.up()
    documents = list(DOCUMENTS.values())
    for at in range(0, COUNT, 100):
        batch = {"documents": documents[at : at + 100]}
        results = checkout.service().result("POST", "/v1/ingest/batch", batch)["results"]
        assert {each["status"] for each in results} == {"indexed"}
    return checkout


def test_every_document_is_embedded_again_and_none_is_lost(
    filled: Checkout, cloudflare: LocalCloudflare
) -> None:
    service, before = filled.service(), filled.resources()
    filled.configure(_config(GEMMA))
    assert f"{COUNT} documents will be embedded again" in filled.preview()
    with _searching(service) as searches:
        filled.up()
        cloudflare.control(
            "POST", "/__local/faults", {"target": "vectorize", "op": "upsert", "action": "kill-after"}
        )
        cloudflare.control("POST", "/__local/faults", {"target": "ai", "action": "error", "calls": 2})
        stats = _until_settled(service, GEMMA)
    assert cloudflare.control("GET", "/__local/faults") == [], "the Worker was killed, and AI failed twice"
    assert searches.wrong == []
    assert len(searches.answered) > 10
    assert stats["progress"] is None
    assert _contents(service) == DOCUMENTS
    # Vectors of two models have nothing to do with each other: this would find them by chance only.
    for at in (7, 55, 123, 250):
        assert f"n/{at:03}" in service.search(f"Passage {at} speaks of the number {at}", topK=20)
    again = service.result("POST", "/v1/ingest", DOCUMENTS["n/007"])
    assert (again["status"], again["embedModel"]) == ("skipped", GEMMA)
    _take_turns(service, cloudflare, before, filled.resources())


def _take_turns(service: Service, cloudflare: LocalCloudflare, *states: dict[str, Any]) -> None:
    """Roll back and forth, as a person does: no version undoes what another has done."""
    versions = [state["version"]["id"].rpartition("/")[2] for state in states]
    assert len(set(versions)) == len(states)
    cloudflare.control("POST", "/__local/calls/reset")
    for state, version in zip(states, versions, strict=True):
        cloudflare.client.with_options(timeout=_DONE_SECONDS).workers.scripts.deployments.create(
            state["worker"]["outputs"]["name"],
            account_id=cloudflare.account,
            strategy="percentage",
            versions=[{"percentage": 100, "version_id": version}],
        )
        assert "n/123" in service.search("Passage 123 speaks of the number 123", topK=20)
        assert service.result("POST", "/v1/ingest", DOCUMENTS["n/007"])["status"] == "skipped"
        stats = service.result("GET", "/v1/stats")
        assert (stats["state"], stats["documents"]["byModel"]) == ("ok", {GEMMA: COUNT})
    calls = cloudflare.control("GET", "/__local/calls")
    assert calls["ai"] == {"run": len(states)}, "only the questions are embedded"
    assert "upsert" not in calls["vectorize"]
