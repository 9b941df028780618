"""The operations whose round trips are counted, and what the design allows them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx

from cfrag.local_process import Running

SETTLE_SECONDS = 10.0


class Calls(NamedTuple):
    """Calls to each service; a D1 batch is one."""

    d1: int
    ai: int
    vectorize: int


class Operation(NamedTuple):
    """`prepare` is done before anything is counted, `run` is what is counted."""

    name: str
    allowed: Calls
    run: Callable[[httpx.Client], httpx.Response]
    prepare: Callable[[httpx.Client], object] = lambda _: None


def document(doc_id: str, text: str = "A text about nothing in particular.", **more: Any) -> dict[str, Any]:
    metadata = {"chapter": "other", "words": 6}
    return {
        "id": f"bench/{doc_id}",
        "title": "Bench",
        "body": text,
        "tags": ["bench"],
        "metadata": metadata,
    } | more


def documents(prefix: str) -> dict[str, Any]:
    return {"documents": [document(f"{prefix}-{number}", f"Text number {number}.") for number in range(100)]}


def post(path: str, body: Any) -> Callable[[httpx.Client], httpx.Response]:
    return lambda client: client.post(path, json=body)


def get(path: str) -> Callable[[httpx.Client], httpx.Response]:
    return lambda client: client.get(path)


def search(**more: Any) -> Callable[[httpx.Client], httpx.Response]:
    return post("/v1/search", {"query": "a text about nothing", **more})


def operations(run: str) -> list[Operation]:
    """`run` makes the ids of one run new ones."""
    one, other = document(f"{run}-one"), document(f"{run}-one", active=False)
    many = documents(f"{run}-many")
    return [
        Operation("ingest, new", Calls(2, 1, 1), post("/v1/ingest", one)),
        Operation("ingest, unchanged", Calls(1, 0, 0), post("/v1/ingest", one)),
        Operation(
            "ingest, only active differs", Calls(2, 0, 2), post("/v1/ingest", other), wait_for(one["id"])
        ),
        Operation("batch of 100, new", Calls(2, 1, 1), post("/v1/ingest/batch", many)),
        Operation("batch of 100, unchanged", Calls(1, 0, 0), post("/v1/ingest/batch", many)),
        Operation("search", Calls(0, 1, 1), search()),
        Operation("search, typed filter", Calls(0, 1, 1), search(filter={"words": {"$lt": 100}})),
        Operation("search, tag filter, 2 tag slots", Calls(0, 1, 2), search(tags=["bench"])),
        Operation("get", Calls(1, 0, 1), get(f"/v1/docs/{one['id']}")),
        Operation("list 100", Calls(1, 0, 0), get("/v1/docs?limit=100")),
        Operation("delete", Calls(2, 0, 1), lambda client: client.delete(f"/v1/docs/{one['id']}")),
    ]


def wait_for(doc_id: str) -> Callable[[httpx.Client], None]:
    """Until a document that was written can be seen in the index."""

    def wait(client: httpx.Client) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while (
            client.get(f"/v1/docs/{doc_id}").json().get("state") != "indexed" and time.monotonic() < deadline
        ):
            time.sleep(0.2)

    return wait


@contextmanager
def counting(cloudflare: Running) -> Iterator[None]:
    """The platform counts D1 calls too; otherwise they stay inside the Worker's process."""
    cloudflare.call("PUT", "/__local/settings", {"d1Faults": True})
    try:
        yield
    finally:
        cloudflare.call("PUT", "/__local/settings", {"d1Faults": False})


def count(cloudflare: Running, client: httpx.Client, operation: Operation) -> Calls:
    """The calls of one operation, as the platform saw them. Raises httpx.HTTPStatusError where it fails."""
    operation.prepare(client)
    cloudflare.call("POST", "/__local/calls/reset")
    operation.run(client).raise_for_status()
    seen = cloudflare.call("GET", "/__local/calls")
    return Calls(*(sum(seen[service].values()) for service in Calls._fields))
