"""The Worker's entrypoints: HTTP, the queue, and RPC for other Workers."""

from typing import Any

from workers import WorkerEntrypoint, asgi

from rag import consumer, rpc
from rag.app import app
from rag.bindings import Bindings
from rag.settings import BODY_BYTES


class Bounded:
    """A request whose body ends just after the size limit: the adapter would read all of it into memory."""

    def __init__(self, request: Any) -> None:
        self.method = request.method
        self.url = request.url
        self.headers = list(request.headers.items())
        declared = request.headers.get("content-length") or ""
        fits = not declared.isdecimal() or int(declared) <= BODY_BYTES
        self.body = _some_of(request.body) if request.body and fits else None


async def _some_of(body: Any) -> Any:
    size = 0
    async for chunk in body:
        size += chunk.byteLength
        # What is beyond is read and dropped: unread, it would break the connection before the answer is read.
        if size - chunk.byteLength <= BODY_BYTES:
            yield chunk


class Default(WorkerEntrypoint):
    """What Cloudflare calls. Public methods here are callable over RPC too, so there are no others."""

    async def fetch(self, request: Any) -> Any:
        return await asgi.fetch(app, Bounded(request), self.env, self.ctx)

    async def queue(self, batch: Any) -> None:
        await consumer.consume(Bindings.from_env(self.env), batch)


class RagEntrypoint(WorkerEntrypoint):
    """The service for other Workers, through a service binding, which is trusted: no key is asked for.

    Takes and returns plain objects as over HTTP; a failure is `{"error": <problem>}`, never an exception.
    """

    async def ingest(self, document: Any) -> Any:
        return await rpc.ingest(Bindings.from_env(self.env), document)

    async def ingestBatch(self, documents: Any) -> Any:
        return await rpc.ingest_batch(Bindings.from_env(self.env), documents)

    async def search(self, request: Any) -> Any:
        return await rpc.search(Bindings.from_env(self.env), request)

    async def get(self, doc_id: Any) -> Any:
        return await rpc.get(Bindings.from_env(self.env), doc_id)

    async def delete(self, doc_id: Any) -> Any:
        return await rpc.delete(Bindings.from_env(self.env), doc_id)

    async def stats(self) -> Any:
        return await rpc.stats(Bindings.from_env(self.env))
