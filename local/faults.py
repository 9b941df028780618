"""Faults that tests switch on, and counters of the calls that a Worker makes."""

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from local.envelope import ApiError, ok
from local.limits import Refusal

Target = Literal["ai", "vectorize", "d1", "queue"]
KillCell = Callable[[str], Awaitable[None] | None]

# What each product says when it is out of capacity.
DEFAULTS: dict[str, Refusal] = {
    "ai": Refusal(429, 3040, "Capacity temporarily exceeded, please try again."),
    "vectorize": Refusal(429, 40041, "Too Many Requests"),
    "d1": Refusal(500, 7500, "D1_ERROR: Network connection lost."),
    "queue": Refusal(429, 10250, "Queue is overloaded. Please back off."),
}


class Fault(BaseModel):
    """A fault for the next `calls` matching calls; `op` or `worker` left out match any."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    target: Target
    action: Literal["error", "delay", "kill-before", "kill-after"]
    calls: int = Field(default=1, ge=1)
    op: str | None = None
    worker: str | None = None
    delay_ms: int = Field(default=0, ge=0)
    message: str | None = None
    status: int | None = None

    def matches(self, target: str, op: str, worker: str | None) -> bool:
        # Only a Worker has a process that can be killed.
        if self.action.startswith("kill") and worker is None:
            return False
        return (
            self.calls > 0
            and self.target == target
            and self.op in (None, op)
            and self.worker in (None, worker)
        )

    def error(self) -> ApiError:
        default = DEFAULTS[self.target]
        return ApiError(self.status or default.status, default.code, self.message or default.text)


class Faults:
    """The one table of faults and counters, used by REST and by the bindings.

    `kill_cell` is set by the server: it kills the process group that runs the named Worker.
    """

    def __init__(self, kill_cell: KillCell | None = None) -> None:
        self.kill_cell = kill_cell
        self._faults: list[Fault] = []
        self._calls: Counter[tuple[str, str]] = Counter()

    def add(self, fault: Fault) -> None:
        self._faults.append(fault)

    def clear(self) -> None:
        self._faults.clear()

    def pending(self) -> list[Fault]:
        """Faults with calls left, oldest first."""
        return [fault for fault in self._faults if fault.calls > 0]

    def calls(self) -> dict[str, dict[str, int]]:
        """Calls since the last reset as `{target: {op: count}}`."""
        counted: dict[str, dict[str, int]] = {target: {} for target in DEFAULTS}
        for (target, op), count in sorted(self._calls.items()):
            counted[target][op] = count
        return counted

    def reset_calls(self) -> None:
        self._calls.clear()

    @asynccontextmanager
    async def call(self, target: Target, op: str, worker: str | None = None) -> AsyncIterator[None]:
        """Wrap the real call: counts it, then delays, fails or kills as asked.

        Raises ApiError for an `error` fault, and after a `kill-before`: nobody is left to hear it.
        """
        after = await self.before(target, op, worker)
        yield
        if after:
            await self.kill(worker)

    async def before(self, target: Target, op: str, worker: str | None = None) -> bool:
        """The part before the real call; true when the caller must be killed after it."""
        self._calls[target, op] += 1
        kill_after = False
        for fault in self._take(target, op, worker):
            await asyncio.sleep(fault.delay_ms / 1000)
            if fault.action == "kill-before":
                await self.kill(worker)
            if fault.action in ("error", "kill-before"):
                raise fault.error()
            kill_after = kill_after or fault.action == "kill-after"
        return kill_after

    async def kill(self, worker: str | None) -> None:
        if self.kill_cell is None or worker is None:
            raise ApiError(500, 10000, "no Worker process to kill")
        done = self.kill_cell(worker)
        if inspect.isawaitable(done):
            await done

    def _take(self, target: str, op: str, worker: str | None) -> list[Fault]:
        taken = [fault for fault in self._faults if fault.matches(target, op, worker)]
        for fault in taken:
            fault.calls -= 1
        self._faults = self.pending()
        return taken


def routes(faults: Faults) -> list[Route]:
    """The switches and counters under `/__local/`; the server adds authentication."""

    async def add(request: Request) -> JSONResponse:
        try:
            fault = Fault.model_validate_json(await request.body())
        except ValidationError as error:
            raise ApiError(400, 10000, f"not a fault: {error.errors()[0]['msg']}") from error
        faults.add(fault)
        return ok([fault.model_dump(by_alias=True) for fault in faults.pending()])

    async def clear(_: Request) -> JSONResponse:
        faults.clear()
        return ok(None)

    async def pending(_: Request) -> JSONResponse:
        return ok([fault.model_dump(by_alias=True) for fault in faults.pending()])

    async def calls(_: Request) -> JSONResponse:
        return ok(faults.calls())

    async def reset(_: Request) -> JSONResponse:
        faults.reset_calls()
        return ok(None)

    return [
        Route("/__local/faults", add, methods=["POST"]),
        Route("/__local/faults", clear, methods=["DELETE"]),
        Route("/__local/faults", pending, methods=["GET"]),
        Route("/__local/calls", calls, methods=["GET"]),
        Route("/__local/calls/reset", reset, methods=["POST"]),
    ]
