"""The Worker's entrypoints: HTTP, the queue, and RPC for other Workers."""

from typing import Any

from workers import WorkerEntrypoint, asgi

from rag import consumer, rpc
from rag.app import app
from rag.bindings import Bindings
from rag.bounded import Bounded


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
