"""The product engines next to Workers and D1: Vectorize, Workers AI, Queues, and the faults for all."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.routing import Route

from local.envelope import JsonObject

Deliver = Callable[[str, str, list[JsonObject]], Awaitable[JsonObject]]


class Engines:
    """One place that knows how the engines are made, connected and asked."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def connect(self, deliver: Deliver, kill_cell: Callable[[str], None]) -> None:
        """Give the engines what they need of the running Workers."""

    def account_routes(self) -> list[Route]:
        """Routes below `/accounts/{account_id}`."""
        return []

    def top_routes(self, set_d1_faults: Callable[[bool], Awaitable[None]]) -> list[Route]:
        """The bindings' routes and the fault switches, by their whole path."""
        return []

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def set_vectorize_delay(self, seconds: float) -> None: ...

    def has_index(self, name: str) -> bool:
        return False

    def has_queue(self, name: str) -> bool:
        return False

    def consumed_queues(self, worker: str) -> list[str]:
        """The names of the queues that `worker` consumes."""
        return []

    def indexes(self) -> list[JsonObject]:
        return []

    def queues(self) -> list[JsonObject]:
        return []
