"""Around every request: its id, its clock, the one place where errors become responses, one log line."""

import json
import re
from time import perf_counter
from typing import Any
from urllib.parse import unquote_to_bytes
from uuid import uuid4

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag import logs, timing
from rag.errors import Problem
from rag.invalid import problem_from

_RAY = re.compile(rb"[0-9A-Za-z-]{8,64}")
_SAFE = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}
_BY_STATUS = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "unsupported-media-type"}


def problem_of(error: Exception) -> Problem:
    """Every error as a problem: ours as they are, the framework's translated, all others without details."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        return problem_from(error.errors(), skip=("body", "query", "path", "header"))
    if isinstance(error, ValidationError):
        return problem_from(error.errors(include_url=False))
    if isinstance(error, HTTPException):
        return _from_http(error)
    return Problem("internal", "something went wrong here; the log has it under the request's id")


def _from_http(error: HTTPException) -> Problem:
    details = {404: "there is no such route; /openapi.json lists them", 405: "this route has other methods"}
    kind = _BY_STATUS.get(error.status_code, "invalid-request" if error.status_code < 500 else "internal")
    detail = details.get(error.status_code, str(error.detail))
    return Problem(kind, detail, status=error.status_code, headers=dict(error.headers or {}))


def problem_response(problem: Problem, request_id: str) -> Response:
    """The problem as `application/problem+json`."""
    body = json.dumps(problem.to_dict(request_id))
    headers = {**problem.headers}
    return Response(body, problem.status, headers, media_type="application/problem+json")


class Edge:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, routes: list[APIRoute]) -> None:
        self.app = app
        self.routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(scope, send, self.routes)
        try:
            _check_path(scope)
            await self.app(scope, receive, exchange.send)
        except Exception as error:  # noqa: BLE001 - the edge answers for everything below it
            await exchange.fail(error, receive)
        finally:
            exchange.log()


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, send: Send, routes: list[APIRoute]) -> None:
        self.scope = scope
        self._routes = routes
        self._send = send
        self._began = perf_counter()
        self._timing = timing.start()
        self.id = _request_id(scope)
        scope["rag.requestId"] = self.id
        logs.request_id.set(self.id)
        self.status: int | None = None
        self.problem: str | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = list(message.get("headers", []))
            names = {name for name, _ in given}
            given += [(name, value) for name, value in _SAFE.items() if name not in names]
            given.append((b"x-request-id", self.id.encode()))
            given.append((b"server-timing", self._timing.header().encode()))
            message = {**message, "headers": given}
        await self._send(message)

    async def fail(self, error: Exception, receive: Receive) -> None:
        problem = problem_of(error)
        if problem.type == "method-not-allowed":
            problem.headers["Allow"] = ", ".join(sorted(self._methods()))
        self.problem = problem.type
        if problem.type == "internal":
            logs.log_exception("unexpected error", error)
        if self.status is not None:  # The answer is under way: nothing can be said any more.
            raise error
        await problem_response(problem, self.id)(self.scope, receive, self.send)

    def _methods(self) -> set[str]:
        """Methods of every route with this path: the framework names those of the first."""
        path = self.scope["path"].removeprefix(self.scope.get("root_path", ""))
        matching = [route for route in self._routes if route.path_regex.match(path)]
        return {method for route in matching for method in route.methods or ()}

    def log(self) -> None:
        fields: dict[str, Any] = {
            "method": self.scope["method"][:16],
            "route": _route(self.scope),
            "status": self.status,
            "ms": round((perf_counter() - self._began) * 1000, 1),
            "calls": self._timing.calls,
        }
        if caller := self.scope.get("rag.caller"):
            fields["caller"] = caller.name
        if self.problem:
            fields["problem"] = self.problem
        logs.log("error" if (self.status or 500) >= 500 else "info", "request", **fields)


def _request_id(scope: Scope) -> str:
    # cf-ray is set by Cloudflare itself; anything that doesn't look like one is not taken over.
    ray = next((value for name, value in scope["headers"] if name == b"cf-ray"), b"")
    return ray.decode() if _RAY.fullmatch(ray) else uuid4().hex


def _check_path(scope: Scope) -> None:
    # Percent-encoded bytes that are no UTF-8 have been replaced: two different ids would look the same.
    if "\ufffd" in scope["path"]:
        try:
            unquote_to_bytes(scope["raw_path"]).decode()
        except UnicodeDecodeError:
            raise Problem("invalid-request", "the path is not UTF-8") from None


def _route(scope: Scope) -> str | None:
    """The route's template: the path itself holds documents' ids."""
    route = scope.get("route")
    return getattr(route, "path", None)


async def raise_through(_request: Any, error: Exception) -> Response:
    """Keeps the framework from answering errors itself: `Edge` does."""
    raise error
