"""A server with all engines on a free port, and two ways to call them: the SDK and a Worker's binding."""

import json
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import httpx
import pytest
import uvicorn
from cloudflare import APIStatusError, Cloudflare
from starlette.applications import Starlette
from starlette.routing import Mount

from local import ai, bindings, faults, queues, vectorize
from local.ai import EmbeddingService
from local.envelope import ApiError, on_api_error
from local.faults import Faults
from local.queues import QueueService
from local.vectorize import VectorizeService

ACCOUNT = "0123456789abcdef0123456789abcdef"
WORKER = "docs-worker"


class Clock:
    """Time that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class Engines(NamedTuple):
    vectorize: VectorizeService
    ai: EmbeddingService
    queues: QueueService
    faults: Faults
    killed: list[str]


class Server(NamedTuple):
    engines: Engines
    url: str
    client: Cloudflare

    def rest(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        return httpx.request(method, f"{self.url}/client/v4/accounts/{ACCOUNT}{path}", **kwargs)

    def binding(self, path: str, body: Any) -> Any:
        """The result of a binding call. Raises ApiError as the caller sees it."""
        headers = {"x-cfrag-worker": WORKER}
        answer = httpx.post(f"{self.url}/__bindings/{path}", json=body, headers=headers).json()
        if "error" in answer:
            raise ApiError(400, answer["error"]["code"], answer["error"]["message"])
        return answer["ok"]


class Rest:
    """The engines as the official SDK reaches them."""

    largest_upsert = 5000

    def __init__(self, server: Server) -> None:
        self._server = server
        self._indexes = server.client.vectorize.indexes

    def upsert(self, index: str, vectors: list[Any]) -> Any:
        body = b"\n".join(json.dumps(vector).encode() for vector in vectors)
        with warnings.catch_warnings():
            # The SDK warns about its own way to post this body.
            warnings.simplefilter("ignore", DeprecationWarning)
            return self._call(lambda: self._indexes.upsert(index, account_id=ACCOUNT, body=body))

    def query(self, index: str, vector: list[float], **options: Any) -> Any:
        return self._call(
            lambda: self._indexes.query(index, account_id=ACCOUNT, vector=vector, extra_body=options)
        )

    def get_by_ids(self, index: str, ids: list[str]) -> Any:
        return self._call(lambda: self._indexes.get_by_ids(index, account_id=ACCOUNT, ids=ids))

    def delete_by_ids(self, index: str, ids: list[str]) -> Any:
        return self._call(lambda: self._indexes.delete_by_ids(index, account_id=ACCOUNT, ids=ids))

    def embed(self, model: str, body: dict[str, Any]) -> Any:
        path = f"/accounts/{ACCOUNT}/ai/run/{model}"
        return self._call(lambda: self._server.client.post(path, body=body, cast_to=httpx.Response))

    def send(self, queue: str, messages: list[Any]) -> Any:
        found = self._server.engines.queues.list_queues(queue)
        name = found[0]["queue_id"] if found else queue
        body = [{"body": one["body"], "content_type": one.get("contentType", "json")} for one in messages]
        pushing = self._server.client.queues.messages
        return self._call(lambda: pushing.bulk_push(name, account_id=ACCOUNT, messages=cast(Any, body)))

    def _call(self, work: Any) -> Any:
        try:
            return work()
        except APIStatusError as error:
            first = error.response.json()["errors"][0]
            raise ApiError(error.status_code, first["code"], first["message"]) from error


class Binding:
    """The engines as a Worker's bindings reach them."""

    largest_upsert = 1000

    def __init__(self, server: Server) -> None:
        self._server = server

    def upsert(self, index: str, vectors: list[Any]) -> Any:
        return self._server.binding(f"vectorize/{index}/upsert", [vectors])

    def query(self, index: str, vector: list[float], **options: Any) -> Any:
        return self._server.binding(f"vectorize/{index}/query", [vector, options])

    def get_by_ids(self, index: str, ids: list[str]) -> Any:
        return self._server.binding(f"vectorize/{index}/getByIds", [ids])

    def delete_by_ids(self, index: str, ids: list[str]) -> Any:
        return self._server.binding(f"vectorize/{index}/deleteByIds", [ids])

    def embed(self, model: str, body: dict[str, Any]) -> Any:
        return self._server.binding(f"ai/{model}", {"input": body, "options": {}})

    def send(self, queue: str, messages: list[Any]) -> Any:
        return self._server.binding(f"queue/{queue}/send", {"messages": messages})


Way = Rest | Binding


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def index(tmp_path: Path, clock: Clock) -> Iterator[VectorizeService]:
    """Vectorize with an index `docs` of 3 dimensions, whose writes are visible at once."""
    service = VectorizeService(tmp_path / "vectorize.db", clock=clock)
    service.create("docs", None, 3, "cosine")
    yield service
    service.close()


@pytest.fixture
def queue_service(tmp_path: Path, clock: Clock) -> Iterator[QueueService]:
    service = QueueService(tmp_path / "queues.db", clock=clock)
    yield service
    service.close()


@pytest.fixture(scope="session")
def embedder() -> EmbeddingService:
    return EmbeddingService()


@pytest.fixture
def engines(tmp_path: Path, embedder: EmbeddingService) -> Iterator[Engines]:
    killed: list[str] = []
    made = Engines(
        VectorizeService(tmp_path / "vectorize.db"),
        embedder,
        QueueService(tmp_path / "queues.db"),
        Faults(killed.append),
        killed,
    )
    yield made
    made.vectorize.close()
    made.queues.close()


class Swappable:
    """One listening application for all tests; each test puts its own behind it."""

    app: Starlette

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


@pytest.fixture(scope="session")
def listening() -> Iterator[tuple[Swappable, str, Cloudflare]]:
    swappable = Swappable()
    running = uvicorn.Server(uvicorn.Config(swappable, port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=running.run)
    thread.start()
    deadline = time.monotonic() + 20
    while not running.started and time.monotonic() < deadline:
        time.sleep(0.01)
    url = f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    with Cloudflare(api_token="x" * 40, base_url=f"{url}/client/v4", max_retries=0) as client:
        yield swappable, url, client
    running.should_exit = True
    thread.join(20)


@pytest.fixture
def server(engines: Engines, listening: tuple[Swappable, str, Cloudflare]) -> Server:
    swappable, url, client = listening
    account = [
        *vectorize.routes(engines.vectorize, engines.faults),
        *ai.routes(engines.ai, engines.faults),
        *queues.routes(engines.queues, engines.faults),
    ]
    swappable.app = Starlette(
        routes=[
            *bindings.routes(engines.vectorize, engines.ai, engines.queues, engines.faults),
            *faults.routes(engines.faults),
            Mount("/client/v4/accounts/{account_id}", routes=account),
        ],
        exception_handlers={ApiError: on_api_error},
    )
    return Server(engines, url, client)


@pytest.fixture(params=[Rest, Binding], ids=["rest", "binding"])
def way(request: pytest.FixtureRequest, server: Server) -> Way:
    """Either way into the engines: a limit must hold on both."""
    made: Way = request.param(server)
    return made
