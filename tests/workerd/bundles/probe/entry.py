"""A Worker that shows what its runtime gives to it: one route for each thing that tests ask about."""

import asyncio
import json
import os
import sys
import traceback
from typing import Any
from urllib.parse import parse_qs, urlsplit

import notes
from pyodide.ffi import JsException  # type: ignore[import-not-found]
from workers import Response, WorkerEntrypoint, asgi, wait_until
from workers import env as module_env


async def stream(scope: Any, receive: Any, send: Any) -> None:
    """Three server-sent events, 100 ms apart."""
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for number in range(3):
        await send({"type": "http.response.body", "body": b"data: %d\n\n" % number, "more_body": True})
        await asyncio.sleep(0.1)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def write_later(db: Any, key: str) -> None:
    """Write the key once somebody has written "go" for it."""
    go = db.prepare("SELECT 1 AS found FROM later WHERE key = ?").bind(f"go {key}")
    while not await go.first():  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await db.prepare("INSERT INTO later (key) VALUES (?)").bind(key).run()


meeting: list[int] = []


class Default(WorkerEntrypoint):
    async def fetch(self, request: Any) -> Any:
        url = urlsplit(request.url)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/stream":
            return await asgi.fetch(stream, request, self.env, self.ctx)
        if url.path == "/client":
            return Response.json(request.headers["cf-connecting-ip"])
        if url.path == "/fail":
            raise ValueError("the route fails")
        body = json.loads(await request.text()) if request.method == "POST" else None
        try:
            return Response.json(await getattr(self, "route_" + url.path[1:])(body, **query))
        except JsException as error:
            return Response.json({"error": str(error), "type": type(error).__name__})

    async def queue(self, batch: Any) -> None:
        for message in batch.messages:
            order = message.body.get("order") if isinstance(message.body, dict) else None
            print("received", batch.queue, message.id, type(message.body).__name__, message.attempts, order)
            if order == "ack":
                message.ack()
            elif order == "retry":
                message.retry({"delaySeconds": 7})
            elif order == "retry-all":
                batch.retryAll({"delaySeconds": 9})
            elif order == "raise":
                raise RuntimeError("the consumer fails")

    async def route_health(self, _: Any) -> Any:
        return {"ok": True}

    async def route_runtime(self, _: Any) -> Any:
        return {
            "version": ".".join(map(str, sys.version_info[:2])),
            "platform": sys.platform,
            "origin": notes.ORIGIN,
            "path": sys.path[:3],
            "entropy": len(os.urandom(8)),
        }

    async def route_env(self, _: Any) -> Any:
        return {
            "names": sorted(self.env._env.object_keys()),
            "text": self.env.TEXT,
            "json": self.env.SETTINGS.to_py(),
            "version": self.env.VERSION.id,
            "module": module_env.TEXT,
        }

    async def route_sql(self, body: Any) -> Any:
        result = await self.env.DB.prepare(body["sql"]).bind(*body.get("params", [])).all()
        return {"results": result["results"], "changes": result["meta"]["changes"]}

    async def route_batch(self, body: Any) -> Any:
        results = await self.env.DB.batch([self.env.DB.prepare(sql)._binding for sql in body])
        return [result["results"] for result in results]

    async def route_vectorize(self, body: Any) -> Any:
        return await getattr(self.env.VECTORIZE, body["op"])(*body["args"])

    async def route_ai(self, body: Any) -> Any:
        return await self.env.AI.run(body["model"], body["input"])

    async def route_send(self, body: Any) -> Any:
        await self.env.QUEUE.send(body["body"], body.get("options", {}))
        return "sent"

    async def route_send_batch(self, body: Any) -> Any:
        await self.env.QUEUE.sendBatch(body)
        return "sent"

    async def route_limit(self, _: Any, key: str) -> Any:
        return await self.env.LIMIT.limit({"key": key})

    async def route_later(self, _: Any, key: str, how: str) -> Any:
        if how == "module":
            wait_until(write_later(self.env.DB, key))
        else:
            self.ctx.waitUntil(write_later(self.env.DB, key))
        return "answered"

    async def route_print(self, _: Any) -> Any:
        print("printed to stdout")
        print("printed to stderr", file=sys.stderr)
        try:
            raise ValueError("seen and logged")
        except ValueError:
            traceback.print_exc()
        return "printed"

    async def route_meet(self, _: Any, people: str) -> Any:
        """Answer when so many requests are here at the same time."""
        meeting.append(1)
        # An event would wake all of them inside the request that sets it, which workerd doesn't like.
        while len(meeting) < int(people):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return "met"

    async def route_sleep(self, _: Any, ms: str) -> Any:
        await asyncio.sleep(int(ms) / 1000)
        return "slept"


class RagEntrypoint(WorkerEntrypoint):
    async def search(self, request: Any, extra: Any = None) -> Any:
        first = await self.env.DB.prepare("SELECT ? AS query, NULL AS none").bind(request["query"]).first()
        return {"hits": [first], "topK": request.get("topK"), "extra": extra}

    def version(self) -> str:
        return "plain"

    async def fails(self) -> None:
        raise ValueError("the method fails")
