"""A Worker without a framework, with a queue and a database of its own."""

from typing import Any
from urllib.parse import urlsplit

from workers import Response, WorkerEntrypoint


class Default(WorkerEntrypoint):
    async def fetch(self, request: Any) -> Any:
        """Answers with the names of its tables, or takes a mail."""
        if urlsplit(request.url).path == "/mail":
            await self.env.MAIL.send(await request.json())
            return Response("", status=202)
        found = await self.env.DB.prepare("SELECT name FROM sqlite_master ORDER BY name").all()
        return Response("\n".join(row["name"] for row in found["results"]))

    async def queue(self, batch: Any) -> None:
        for message in batch.messages:
            print(f"mail to {message.body['to']}")
            message.ack()
