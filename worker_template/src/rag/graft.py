"""The service as a part of another Worker: below a path, with the host saying who may call if it wants to."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, get_args
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from rag import consumer
from rag.app import app
from rag.auth import Caller, Scope
from rag.bindings import Bindings
from rag.bounded import Bounded

# The caller's scopes of "read", "write" and "internal"; none, or nothing, for one that is not known.
Authorize = Callable[[Request], Awaitable[Collection[str] | None]]


class Service:
    """An ASGI application below `path`: `host.mount("/rag", service)`, or `fetch` without a framework.

    `authorize` is asked by every route but /health; left out, callers show an API key or the internal secret.
    `queue` is the ingest queue's name, `bindings` the host's names of bindings that it calls otherwise.
    """

    def __init__(
        self,
        path: str,
        *,
        queue: str = "",
        authorize: Authorize | None = None,
        bindings: Mapping[str, str] | None = None,
    ) -> None:
        self._path = path.rstrip("/")
        self._queue = queue
        self._authorize = authorize
        self._names = dict(bindings or {})

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        inner: AsgiScope = {**scope, "env": self._env(scope["env"])}
        if not scope.get("root_path", "").endswith(self._path):
            inner["root_path"] = scope.get("root_path", "") + self._path
        if self._authorize:
            inner["rag.authorize"] = self._ask
        await app(inner, receive, send)

    def serves(self, request: Any) -> bool:
        """Whether a request is for this service."""
        return (urlsplit(str(request.url)).path + "/").startswith(self._path + "/")

    async def fetch(self, request: Any, env: Any, ctx: Any) -> Any:
        """The answer to a request that this service serves, for a host without a framework."""
        from workers import asgi

        return await asgi.fetch(self, Bounded(request), env, ctx)

    def handles(self, batch: Any) -> bool:
        """Whether a batch comes from the ingest queue."""
        return bool(batch.queue == self._queue)

    async def queue(self, batch: Any, env: Any) -> None:
        """Work on a batch of the ingest queue."""
        await consumer.consume(Bindings.from_env(self._env(env)), batch)

    def bindings(self, env: Any) -> Bindings:
        """What `rag.core`'s functions take, for the host's own code."""
        return Bindings.from_env(self._env(env))

    def _env(self, env: Any) -> Any:
        return _Renamed(env, self._names) if self._names else env

    async def _ask(self, request: Request) -> Caller | None:
        scopes = await self._authorize(request) if self._authorize else None
        known = frozenset(each for each in get_args(Scope) if scopes and each in scopes)
        return Caller("host", known) if known else None


class _Renamed:
    """An environment in which some bindings have other names."""

    def __init__(self, env: Any, names: Mapping[str, str]) -> None:
        self._env = env
        self._names = names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, self._names.get(name, name))
