"""Requests with a JSON body: size, encoding and depth are checked before anything is built from it."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response

from rag.auth import Require
from rag.errors import Problem, too_large
from rag.settings import BODY_BYTES


async def read_body(request: Request) -> bytes:
    """The body's bytes. Raises the 413 as soon as there are more than the limit."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > BODY_BYTES:
        raise too_large("the body", field=None, limit=BODY_BYTES, actual=int(declared[:20]))
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > BODY_BYTES:
            raise too_large("the body", field=None, limit=BODY_BYTES, actual=size)
        chunks.append(chunk)
    return b"".join(chunks)


def parse_json(body: bytes) -> Any:
    """The value of a JSON text. Raises the 400 for bad UTF-8, NaN, half surrogates and over 200 levels."""
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        # The parser's message has a position and no text of the body.
        raise Problem("invalid-json", f"the body is not valid JSON: {error}") from None


class JsonRequest(Request):
    """A request whose JSON body is read by `load`, before FastAPI asks for it."""

    async def load(self) -> None:
        kind = self.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind != "application/json" and not kind.endswith("+json"):
            raise Problem("unsupported-media-type", "send the body with Content-Type: application/json")
        self._body = await read_body(self)
        if not self._body:
            raise Problem("invalid-json", "the body is empty; a JSON object is expected")
        self._json = parse_json(self._body)


class ApiRoute(APIRoute):
    """A route that asks for credentials first, and only then reads the body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        guards = [each.dependency for each in self.dependencies if isinstance(each.dependency, Require)]

        async def handle(request: Request) -> Response:
            for guard in guards:
                await guard(request)
            if self.body_field is not None:
                request = JsonRequest(request.scope, request.receive)
                await request.load()
            return await handler(request)

        return handle
