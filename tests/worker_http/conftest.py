"""The rendered Worker's HTTP side on this machine's Python, driven through ASGI."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from infra.config import RagConfig
from local.ai import EmbeddingService
from local.vectorize import VectorizeService

from .deployed import Deployment, local_cloudflare
from .engines import INDEX, SECRET, Ai, Database, Index, Queue
from .loading import CONFIG, Rendered, rendered

Client = httpx.AsyncClient
Opened = Callable[..., Any]
BEARER = {"Authorization": f"Bearer {SECRET}"}


@pytest.fixture(scope="session")
def embedding() -> EmbeddingService:
    return EmbeddingService()


@pytest.fixture
def env(tmp_path: Path, embedding: EmbeddingService) -> Iterator[SimpleNamespace]:
    """A Worker's environment: D1, Vectorize with its metadata indexes, Workers AI, a queue, the secret."""
    config = RagConfig.from_pulumi(CONFIG)
    service = VectorizeService(tmp_path / "vectorize.sqlite")
    service.create(INDEX, None, config.model.dims, "cosine")
    for index in config.metadata_indexes():
        service.create_metadata_index(INDEX, index.property_name, index.type)
    yield SimpleNamespace(
        DB=Database(),
        AI=Ai(embedding),
        VECTORIZE=Index(service),
        RAG_INGEST_QUEUE=Queue(),
        RAG_DLQ=Queue(),
        INTERNAL_API_SECRET=SECRET,
    )
    service.close()


@asynccontextmanager
async def connect(worker: Rendered, env: Any, **headers: str) -> AsyncIterator[Client]:
    """A client of the Worker in an environment, with these headers on every request."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["env"] = env
        with worker.importable():
            await worker.app.app(scope, receive, send)

    # Errors that leave the application would be a 500 without a body at Cloudflare: let them fail the test.
    transport = httpx.ASGITransport(app, raise_app_exceptions=True)
    async with Client(transport=transport, base_url="https://rag.test", headers=headers) as client:
        yield client


@pytest.fixture
async def client(env: SimpleNamespace) -> AsyncIterator[Client]:
    """A client with the internal secret."""
    async with connect(rendered(), env, **BEARER) as opened:
        yield opened


@pytest.fixture
async def stranger(env: SimpleNamespace) -> AsyncIterator[Client]:
    """A client without credentials."""
    async with connect(rendered(), env) as opened:
        yield opened


def log_lines(output: str) -> list[dict[str, Any]]:
    """The JSON lines that a Worker has logged."""
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The Worker of `CONFIG`, deployed to a local Cloudflare of its own."""
    server = local_cloudflare(tmp_path_factory.mktemp("cloudflare"))
    try:
        yield Deployment(server, RagConfig.from_pulumi(CONFIG), "pydocs")
    finally:
        server.stop()
