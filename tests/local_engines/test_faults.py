"""Faults and counters: switched on over HTTP, felt by bindings and by REST alike."""

import time
from typing import Any

import httpx
import pytest

from local.envelope import ApiError
from local.faults import Fault, Faults

ACCOUNT = "0123456789abcdef0123456789abcdef"
BGE = "@cf/baai/bge-base-en-v1.5"
TEXT = {"text": "a"}


def switch(server: Any, **fault: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/__local/faults", json=fault)


def calls(server: Any) -> Any:
    return httpx.get(f"{server.url}/__local/calls").json()["result"]


def test_a_fault_holds_for_the_next_calls_and_no_longer(way: Any, server: Any) -> None:
    switch(server, target="ai", action="error", calls=2)
    for _ in range(2):
        with pytest.raises(ApiError, match="Capacity temporarily exceeded") as refusal:
            way.embed(BGE, TEXT)
        assert refusal.value.code == 3040
    way.embed(BGE, TEXT)


def test_a_fault_says_what_it_was_told_to(server: Any) -> None:
    switch(
        server, target="vectorize", op="query", action="error", calls=1, message="disk on fire", status=503
    )
    server.engines.vectorize.create("docs", None, 1, "cosine")
    server.binding("vectorize/docs/describe", [])
    answer = server.rest("POST", "/vectorize/v2/indexes/docs/query", json={"vector": [1]})
    assert (answer.status_code, answer.json()["errors"][0]["message"]) == (503, "disk on fire")
    server.binding("vectorize/docs/query", [[1], {}])


def test_a_delay_slows_a_call_that_then_succeeds(way: Any, server: Any) -> None:
    way.embed(BGE, TEXT)
    switch(server, target="ai", action="delay", calls=1, delayMs=300)
    start = time.monotonic()
    way.embed(BGE, TEXT)
    assert time.monotonic() - start >= 0.3


def test_an_overloaded_queue_takes_nothing(server: Any) -> None:
    queue = server.engines.queues.create_queue("ingest")["queue_id"]
    switch(server, target="queue", action="error", calls=1)
    with pytest.raises(ApiError, match="Queue is overloaded"):
        server.binding("queue/ingest/send", {"messages": [{"body": 1}]})
    assert server.engines.queues.metrics(queue)["backlog_count"] == 0


def test_killed_before_the_call_nothing_is_written_and_killed_after_it_is(server: Any) -> None:
    engines = server.engines
    engines.vectorize.create("docs", None, 1, "cosine")
    vectors = [[{"id": "a", "values": [1]}]]
    switch(server, target="vectorize", op="upsert", action="kill-before", calls=1)
    with pytest.raises(ApiError):
        server.binding("vectorize/docs/upsert", vectors)
    assert (engines.killed, engines.vectorize.info("docs")["vectorCount"]) == (["docs-worker"], 0)
    switch(server, target="vectorize", op="upsert", action="kill-after", calls=1)
    server.binding("vectorize/docs/upsert", vectors)
    assert (len(engines.killed), engines.vectorize.info("docs")["vectorCount"]) == (2, 1)


def test_only_a_worker_can_be_killed_and_only_the_one_named(server: Any) -> None:
    server.engines.vectorize.create("docs", None, 1, "cosine")
    switch(server, target="vectorize", action="kill-before", calls=1, worker="other")
    server.binding("vectorize/docs/query", [[1], {}])
    switch(server, target="vectorize", action="kill-before", calls=1)
    assert server.rest("GET", "/vectorize/v2/indexes/docs/info").status_code == 200
    assert server.engines.killed == []


def test_d1_asks_before_and_after_a_call(server: Any) -> None:
    switch(server, target="d1", op="query", action="kill-after", calls=1)
    asked = {"worker": "docs-worker", "op": "query"}
    assert server.binding("d1/query", asked | {"phase": "before"}) == {"after": True}
    assert server.engines.killed == []
    server.binding("d1/query", asked | {"phase": "after"})
    assert server.engines.killed == ["docs-worker"]
    switch(server, target="d1", action="error", calls=1, message="D1_ERROR: overloaded")
    with pytest.raises(ApiError, match=r"^D1_ERROR: overloaded$"):
        server.binding("d1/query", asked)
    assert server.binding("d1/query", asked) == {"after": False}


def test_faults_are_cleared_and_listed(server: Any) -> None:
    switch(server, target="ai", action="error", calls=5)
    (listed,) = httpx.get(f"{server.url}/__local/faults").json()["result"]
    assert (listed["target"], listed["calls"]) == ("ai", 5)
    httpx.delete(f"{server.url}/__local/faults")
    server.binding(f"ai/{BGE}", {"input": TEXT})


def test_calls_are_counted_per_operation_also_failed_ones(way: Any, server: Any) -> None:
    httpx.post(f"{server.url}/__local/calls/reset")
    way.embed(BGE, TEXT)
    with pytest.raises(ApiError):
        way.embed("@cf/no/model", TEXT)
    with pytest.raises(ApiError):
        way.query("nowhere", [1.0])
    assert calls(server) == {"ai": {"run": 2}, "vectorize": {"query": 1}, "d1": {}, "queue": {}}
    httpx.post(f"{server.url}/__local/calls/reset")
    assert calls(server)["ai"] == {}


@pytest.mark.parametrize(
    "fault",
    [
        {"target": "r2", "action": "error", "calls": 1},
        {"target": "ai", "action": "explode", "calls": 1},
        {"target": "ai", "action": "error", "calls": 0},
        {"target": "ai", "action": "error", "cals": 1},
    ],
)
def test_a_fault_that_means_nothing_is_refused(server: Any, fault: Any) -> None:
    assert switch(server, **fault).status_code == 400
    assert server.engines.faults.pending() == []


async def test_an_async_kill_is_awaited() -> None:
    killed: list[str] = []

    async def kill(worker: str) -> None:
        killed.append(worker)

    faults = Faults(kill)
    faults.add(Fault(target="ai", action="kill-after"))
    async with faults.call("ai", "run", "docs"):
        assert killed == []
    assert killed == ["docs"]
