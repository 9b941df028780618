"""A shop's Worker on FastAPI."""

from typing import Any

from fastapi import FastAPI
from workers import WorkerEntrypoint, asgi

app = FastAPI(title="shop")


@app.get("/")
async def index() -> dict[str, str]:
    return {"shop": "open"}


class Default(WorkerEntrypoint):
    async def fetch(self, request: Any) -> Any:
        return await asgi.fetch(app, request, self.env, self.ctx)
