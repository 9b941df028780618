"""Whatever comes in, it is answered with a problem or a JSON-RPC error: never a 500, never a stack trace."""

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import BEARER, Client, connect
from .engines import Database
from .loading import CONFIG, rendered

PATHS = [
    "/v1/ingest",
    "/v1/ingest/batch",
    "/v1/search",
    "/v1/docs",
    "/v1/docs/delete",
    "/v1/docs/a",
    "/v1/stats",
    "/v1/internal/keys",
    "/v1/internal/keys/a",
    "/v1/internal/enqueue",
    "/mcp",
    "/openapi.json",
    "/",
    "/health",
]
METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW", "get"]
WORKER = rendered(mcp={"internalSecret": True}, cors={"origins": ["https://app.example"]})
NAMES = ["id", "title", "body", "tags", "metadata", "active", "forceReindex", "documents", "query", "topK"]
NAMES += ["filter", "ids", "name", "scopes", "expiresAt", "$eq", "$gt", "$in", "$lt", *CONFIG["metadata"]]
NAMES += ["jsonrpc", "method", "params", "arguments", "_meta", "protocolVersion", "cursor"]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=80),
    st.sampled_from(
        ["2.0", "tools/call", "tools/list", "initialize", "search_docs", "types", "..", "\u0000"]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(NAMES), st.text(max_size=8)), inner, max_size=6),
    ),
    max_leaves=12,
)
# Requests of the right shape with values that may be anything: these get past the first check.
documents = st.fixed_dictionaries(
    {"id": scalars, "body": scalars}, optional=dict.fromkeys(("title", "tags", "metadata", "active"), values)
)
searches = st.fixed_dictionaries(
    {"query": scalars}, optional={"topK": scalars, "filter": values, "tags": values}
)
calls = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from(["tools/call", "tools/list", "initialize", "x"])},
    optional={"id": scalars, "params": values},
)
bodies = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda value: json.dumps(value).encode(), values),
    st.builds(lambda value: json.dumps(value).encode(), st.one_of(documents, searches, calls)),
    st.builds(lambda each: json.dumps({"documents": each}).encode(), st.lists(documents, max_size=3)),
    st.builds(
        lambda depth, opening: opening * depth, st.integers(1, 5_000), st.sampled_from([b"[", b'{"a":'])
    ),
)
# What a server can be sent: bytes without line ends, which no HTTP parser lets through.
header_values = st.binary(max_size=60).filter(lambda value: not set(value) & {0, 10, 13})
headers = st.dictionaries(
    st.sampled_from(
        [
            "content-type",
            "content-length",
            "authorization",
            "origin",
            "host",
            "cf-ray",
            "cf-connecting-ip",
            "mcp-protocol-version",
            "mcp-method",
            "mcp-name",
            "mcp-session-id",
            "accept",
            "access-control-request-method",
        ]
    ),
    header_values,
    max_size=4,
)


class Calm:
    """Bindings that answer nothing: what reaches them was let in, and is not what is tested here."""

    async def query(self, vector: list[float], options: dict[str, Any]) -> dict[str, Any]:
        return {"matches": []}

    async def upsert(self, vectors: list[dict[str, Any]]) -> dict[str, Any]:
        return {"mutationId": "m"}

    async def getByIds(self, ids: list[str]) -> list[dict[str, Any]]:
        return []

    async def deleteByIds(self, ids: list[str]) -> dict[str, Any]:
        return {"mutationId": "m"}

    async def describe(self) -> dict[str, Any]:
        return {"dimensions": 768, "vectorCount": 0}

    async def run(self, model: str, inputs: dict[str, Any]) -> dict[str, Any]:
        count = len(inputs["text"])
        return {"shape": [count, 768], "data": [[0.5] * 768 for _ in range(count)]}

    async def send(self, body: Any, options: dict[str, Any] | None = None) -> None:
        json.dumps(body)

    async def sendBatch(self, messages: list[dict[str, Any]]) -> None:
        json.dumps(messages)


def calm_env() -> SimpleNamespace:
    secret = BEARER["Authorization"].split()[1]
    calm = Calm()
    return SimpleNamespace(
        DB=Database(),
        AI=calm,
        VECTORIZE=calm,
        RAG_INGEST_QUEUE=calm,
        RAG_DLQ=calm,
        INTERNAL_API_SECRET=secret,
    )


def check(answer: Any) -> None:
    assert answer.status_code < 500 or answer.status_code == 503, answer.text
    assert "Traceback" not in answer.text
    assert ".py" not in answer.text or answer.request.url.path == "/openapi.json"
    kind = answer.headers.get("content-type", "")
    if answer.status_code >= 400 and kind and answer.request.method != "HEAD":
        content = json.loads(answer.text) if kind != "text/plain; charset=utf-8" else {"status": 400}
        assert "error" in content or content["status"] == answer.status_code


def send(method: str, path: str, body: bytes, extra: dict[str, bytes]) -> None:
    async def once() -> None:
        async with connect(WORKER, calm_env()) as client:
            await _sent(client, method, path, body, {**_bytes(BEARER), **extra})

    asyncio.run(once())


def _bytes(given: dict[str, str]) -> dict[str, bytes]:
    return {name.lower(): value.encode() for name, value in given.items()}


async def _sent(client: Client, method: str, path: str, body: bytes, given: dict[str, bytes]) -> None:
    lines = [(name.encode(), value) for name, value in given.items()]
    request = client.build_request(method, path, content=body)
    replaced = {name for name, _ in lines}
    kept = [(name, value) for name, value in request.headers.raw if name.lower() not in replaced]
    request.headers = type(request.headers)([*kept, *lines])
    check(await client.send(request))


ANY = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@ANY
@given(st.sampled_from(METHODS), st.sampled_from(PATHS), bodies, headers)
def test_any_request_to_a_known_path(method: str, path: str, body: bytes, extra: dict[str, bytes]) -> None:
    send(method, path, body, extra)


@ANY
@given(st.sampled_from(PATHS), bodies)
def test_any_body_by_someone_who_may(path: str, body: bytes) -> None:
    send("POST", path, body, {"content-type": b"application/json"})


@ANY
@given(
    st.sampled_from(["GET", "DELETE", "POST"]),
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.text(st.characters(codec="utf-8"), max_size=40),
)
def test_any_path_and_query(method: str, path: str, query: str) -> None:
    async def once() -> None:
        async with connect(WORKER, calm_env(), **BEARER) as client:
            for prefix in ("/", "/v1/docs/", "/v1/internal/keys/"):
                params = {"cursor": query, "limit": query}
                check(await client.request(method, prefix + quote(path), params=params))

    asyncio.run(once())


@pytest.fixture
async def stranger_to_all() -> AsyncIterator[Client]:
    async with connect(WORKER, calm_env()) as client:
        yield client


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("size", [5_000_000])
async def test_huge_bodies_from_strangers(stranger_to_all: Client, path: str, size: int) -> None:
    for method in ("POST", "PUT", "DELETE"):
        check(await stranger_to_all.request(method, path, content=b"[" * size))
