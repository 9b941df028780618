"""The running Workers: keeps one process per cell as the control state wants it."""

import asyncio
import contextlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from local.cell_logs import CellLogs
from local.cell_plan import CellPlan, plan
from local.cell_process import CellDown, CellError, CellProcess, end_leftover
from local.envelope import ApiError

JsonObject = dict[str, Any]

HOST_SCRIPT = Path(__file__).parent / "workerd" / "cell.mjs"
# D1 gives a query 30 s; a queue batch may run for 15 minutes on Cloudflare.
D1_TIMEOUT = 35.0
WARM_TIMEOUT = 120.0
QUEUE_TIMEOUT = 15 * 60.0


@dataclass
class Cell:
    plan: CellPlan
    process: CellProcess


class Cells:
    """Starts, replaces and stops cells. `wanted` returns (Workers, databases) as of now."""

    def __init__(
        self,
        home: Path,
        wanted: Callable[[], tuple[list[JsonObject], list[str]]],
        *,
        bindings_url: str,
        token: str,
        command: Sequence[str] = (),
    ) -> None:
        self._home = home / "cells"
        self._logs = CellLogs(home / "logs")
        self.d1_folder = home / "d1"
        for folder in (self._home, self.d1_folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._wanted = wanted
        self._bindings_url = bindings_url
        self._token = token
        self._command = list(command) or [shutil.which("node") or "node", str(HOST_SCRIPT)]
        self._cells: dict[str, Cell] = {}
        self._changing = asyncio.Lock()
        self._http = httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, trust_env=False)
        self.d1_faults = False

    def end_leftovers(self) -> None:
        for pid_file in self._home.glob("*.pid"):
            end_leftover(pid_file, str(self._home))

    async def reconcile(self) -> None:
        """Stop the cells that are no longer wanted, then start those that are missing.

        Databases without a Worker get their cell when they are first queried.
        """
        async with self._changing:
            await self._reconcile()

    async def _reconcile(self, *, spare: bool = False) -> None:
        workers, databases = self._wanted()
        wanted = {cell.key: cell for cell in plan(workers, databases)}
        # First all stops: a port or a database file can be held by one process only.
        gone = [key for key in self._cells if key not in wanted]
        await asyncio.gather(*(self._stop(self._cells.pop(key)) for key in gone))
        for key, cell in wanted.items():
            if key not in self._cells and (cell.workers or spare):
                self._cells[key] = Cell(cell, self._start(cell))

    def _start(self, cell: CellPlan) -> CellProcess:
        self._write(cell)
        path = self._path(cell)
        process = CellProcess(
            cell.label,
            [*self._command, str(path)],
            path.with_suffix(".pid"),
            lambda line: self._logs.take(cell.names, line),
        )
        process.start()
        return process

    def _path(self, cell: CellPlan) -> Path:
        return self._home / f"{cell.key}.json"

    def _write(self, cell: CellPlan) -> None:
        path = self._path(cell)
        path.touch(mode=0o600)
        path.write_text(json.dumps(self._cell_json(cell)))

    async def set_d1_faults(self, wanted: bool) -> None:
        """Whether the cells report every D1 call, so that it is counted and can fail."""
        if wanted == self.d1_faults:
            return
        async with self._changing:
            self.d1_faults = wanted
            for cell in self._cells.values():
                self._write(cell.plan)
                # One that is just starting again reads its file.
                with contextlib.suppress(CellError):
                    await self._post(cell, "/d1-faults", {"enabled": wanted}, 10.0, method="PUT")

    def _cell_json(self, cell: CellPlan) -> JsonObject:
        return {
            "token": self._token,
            "bindingsUrl": self._bindings_url,
            "d1Persist": str(self.d1_folder),
            "databases": list(cell.databases),
            "controlPort": 0,
            "d1Faults": self.d1_faults,
            "workers": list(cell.workers),
        }

    async def _stop(self, cell: Cell) -> None:
        await cell.process.stop()
        self._path(cell.plan).unlink(missing_ok=True)

    async def stop(self) -> None:
        async with self._changing:
            await asyncio.gather(*(self._stop(cell) for cell in self._cells.values()))
            self._cells.clear()
        await self._http.aclose()

    # the hooks of the engines and of the REST API

    def cell_of(self, worker: str) -> Cell | None:
        return next((cell for cell in self._cells.values() if worker in cell.plan.names), None)

    def kill(self, worker: str) -> None:
        """SIGKILL the cell of `worker` at once; its supervisor starts it again."""
        if cell := self.cell_of(worker):
            cell.process.kill()

    async def ready(self, worker: str) -> None:
        """Return when `worker` can take requests. Raises `CellError`."""
        await self._ready(lambda: self.cell_of(worker), f"{worker} is not deployed")

    async def warm(self, worker: str) -> None:
        """Boot the interpreter of a Python Worker and import its code. Raises `CellError`."""
        await self._call_worker(worker, "/warm", {"worker": worker}, WARM_TIMEOUT)

    async def deliver(self, worker: str, queue: str, messages: list[JsonObject]) -> JsonObject:
        """Hand a batch to the queue handler of `worker`; its outcome, or `CellError`."""
        batch = {"worker": worker, "queue": queue, "messages": messages}
        return await self._call_worker(worker, "/queue", batch, QUEUE_TIMEOUT)

    async def _call_worker(self, worker: str, path: str, body: JsonObject, seconds: float) -> JsonObject:
        cell = await self._ready(lambda: self.cell_of(worker), f"{worker} is not deployed")
        answer = await self._post(cell, path, body, seconds)
        if error := answer.get("error"):
            raise CellError(str(error["message"]))
        return answer

    async def query(self, database: str, statements: list[JsonObject]) -> JsonObject:
        """Run statements as one transaction in the cell that owns `database`."""
        if self._owner(database) is None:
            async with self._changing:
                await self._reconcile(spare=True)
        try:
            cell = await self._ready(lambda: self._owner(database), f"no process owns {database}")
            return await self._post(cell, f"/d1/{database}", {"statements": statements}, D1_TIMEOUT)
        except CellError as error:
            raise ApiError(500, 7500, f"the database can't be reached: {error}") from error

    def _owner(self, database: str) -> Cell | None:
        return next((cell for cell in self._cells.values() if database in cell.plan.databases), None)

    async def _ready(self, find: Callable[[], Cell | None], missing: str) -> Cell:
        """The cell that `find` names, ready. One that is being replaced is waited for, too."""
        while True:
            async with self._changing:
                cell = find()
            if cell is None:
                raise CellDown(missing)
            try:
                await cell.process.ready()
            except CellDown:
                if find() is cell:
                    raise
            else:
                return cell

    async def _post(
        self, cell: Cell, path: str, body: JsonObject, seconds: float, method: str = "POST"
    ) -> JsonObject:
        control = await cell.process.ready()
        try:
            answer = await self._http.request(method, control + path, json=body, timeout=seconds)
            result: JsonObject = answer.json()
        except httpx.ConnectError as error:
            raise CellDown(f"{cell.plan.label} does not listen") from error
        except (httpx.HTTPError, ValueError) as error:
            raise CellError(f"{cell.plan.label} went away: {error or type(error).__name__}") from error
        return result

    def states(self) -> list[JsonObject]:
        return [
            {
                "workers": list(cell.plan.names),
                "databases": list(cell.plan.databases),
                "state": cell.process.state,
                "pid": cell.process.pid,
                "restarts": cell.process.restarts,
                "problem": cell.process.last_words if cell.process.state == "failing" else None,
            }
            for cell in self._cells.values()
        ]
