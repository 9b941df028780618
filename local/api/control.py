"""The controls of this machine's Cloudflare, `/__local/…`: what the real one has no API for."""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from local.api.deploy import Deployer
from local.api.guard import Budget
from local.api.requests import json_object
from local.api.workers import checked_name, find
from local.cell_process import CellError
from local.cells import Cells
from local.engines import Engines
from local.envelope import ApiError, JsonObject, ok
from local.state import State, Worker

SETTINGS: dict[str, type | tuple[type, ...]] = {
    "vectorizeDelaySeconds": (int, float),
    "apiBudget": bool,
    "d1Faults": bool,
    # False: a Worker boots at its first request; a start that fails shows only then.
    "warmDeploys": bool,
    # True: no Worker is called for a message, so those without requests never boot.
    "queuesPaused": bool,
    "workerGzipBytes": int,
}
INVALID_SETTING = 10400


class ControlApi:
    def __init__(
        self, state: State, cells: Cells, deployer: Deployer, engines: Engines, budget: Budget
    ) -> None:
        self._state = state
        self._cells = cells
        self._deployer = deployer
        self._engines = engines
        self._budget = budget

    def routes(self) -> list[Route]:
        return [
            Route("/__local/status", self.status, methods=["GET"]),
            Route("/__local/reserve", self.reserve, methods=["POST"]),
            Route("/__local/settings", self.settings, methods=["GET", "PUT"]),
            Route("/__local/warm", self.warm, methods=["POST"]),
            Route("/__local/kill", self.kill, methods=["POST"]),
        ]

    async def apply_settings(self) -> None:
        """Make the stored settings effective, as at the start of the server."""
        self._engines.set_vectorize_delay(float(self._state.setting("vectorizeDelaySeconds", 1.0)))
        self._engines.pause_deliveries(self._state.setting("queuesPaused", False))
        self._budget.enabled = self._state.setting("apiBudget", False)
        await self._cells.set_d1_faults(self._state.setting("d1Faults", False))

    async def status(self, _: Request) -> JSONResponse:
        indexes, queues = await asyncio.gather(
            asyncio.to_thread(self._engines.indexes), asyncio.to_thread(self._engines.queues)
        )
        return ok(
            {
                "workers": [self._worker(worker) for worker in self._state.workers()],
                "databases": [{"id": d.uuid, "name": d.name} for d in self._state.databases()],
                "indexes": indexes,
                "queues": queues,
                "processes": self._cells.states(),
                "apiCalls": {"made": self._budget.made, "refused": self._budget.refused},
                "settings": self._settings(),
            }
        )

    def _worker(self, worker: Worker) -> JsonObject:
        version = self._deployer.running_version(worker)
        cell = self._cells.cell_of(worker.name)
        return {
            "name": worker.name,
            "url": self._url(worker.name),
            "versionId": version.id if version else None,
            "state": cell.process.state if cell else "not deployed",
            "problem": cell.process.last_words if cell and cell.process.state == "failing" else None,
        }

    def _url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._state.port(name)}"

    async def reserve(self, request: Request) -> JSONResponse:
        """The address that a Worker has, or will have once it is deployed."""
        name = checked_name((await json_object(request)).get("worker"))
        return ok({"url": self._url(name)})

    async def settings(self, request: Request) -> JSONResponse:
        if request.method == "PUT":
            body = await json_object(request)
            for key, value in body.items():
                _check_setting(key, value)
            for key, value in body.items():
                self._state.set_setting(key, value)
            await self.apply_settings()
        return ok(self._settings())

    def _settings(self) -> JsonObject:
        defaults: JsonObject = {"vectorizeDelaySeconds": 1.0, "apiBudget": False, "d1Faults": False}
        defaults |= {"warmDeploys": True, "queuesPaused": False}
        return {key: self._state.setting(key, default) for key, default in defaults.items()}

    async def warm(self, request: Request) -> JSONResponse:
        """Boot the interpreter of a Worker, so that the next request is a fast one."""
        worker = find(self._state, str((await json_object(request)).get("worker")))
        try:
            await self._cells.warm(worker.name)
            return ok(None)
        except CellError as error:
            raise ApiError(503, 10000, str(error)) from error

    async def kill(self, request: Request) -> JSONResponse:
        """SIGKILL the process of a Worker, as a crash would."""
        worker = find(self._state, str((await json_object(request)).get("worker")))
        self._cells.kill(worker.name)
        return ok(None)


def _check_setting(key: str, value: Any) -> None:
    wanted = SETTINGS.get(key)
    if wanted is None:
        raise ApiError(400, INVALID_SETTING, f"{key} is no setting; there are {', '.join(SETTINGS)}.")
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise ApiError(400, INVALID_SETTING, f"The setting {key} can't be {value!r}.")
    if isinstance(value, (int, float)) and value < 0:
        raise ApiError(400, INVALID_SETTING, f"The setting {key} can't be negative.")
