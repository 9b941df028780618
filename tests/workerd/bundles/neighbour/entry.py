"""A Python Worker that calls another one, and writes into the database that both share."""

from typing import Any

from workers import Response, WorkerEntrypoint


class Default(WorkerEntrypoint):
    async def fetch(self, request: Any) -> Any:
        if request.url.endswith("/insert"):
            await self.env.DB.prepare("INSERT INTO shared (note) VALUES ('from the neighbour')").run()
            return Response.json("inserted")
        if request.url.endswith("/fetch"):
            answer = await self.env.PROBE.fetch("http://probe/health")
            return Response.json(await answer.json())
        found = await self.env.RAG.search({"query": "from Python", "topK": 2}, [1, None])
        return Response.json({"found": found, "version": await self.env.RAG.version()})
