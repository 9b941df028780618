"""The running Workers: keeps one process per cell as the control state wants it."""

import asyncio
import contextlib
import hashlib
import hmac
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from local.cell_plan import CellPlan, plan
from local.cell_process import CellDown, CellError, CellProcess, end_leftover
from local.envelope import ApiError

JsonObject = dict[str, Any]

HOST_SCRIPT = Path(__file__).parent / "workerd" / "cell.mjs"
LOG_BYTES = 10_000_000
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
        self._logs = home / "logs"
        self._d1 = home / "d1"
        for folder in (self._home, self._logs, self._d1):
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
            lambda line: self._log(cell, line),
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
            "d1Persist": str(self._d1),
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

    def database_file(self, database: str) -> Path:
        """Where the runtime keeps a database: miniflare's Durable Object id of its name."""
        key = hashlib.sha256(b"miniflare-D1DatabaseObject").digest()
        name = hmac.digest(key, database.encode(), "sha256")[:16]
        ident = (name + hmac.digest(key, name, "sha256")[:16]).hex()
        return self._d1 / "miniflare-D1DatabaseObject" / f"{ident}.sqlite"

    def drop_database(self, database: str) -> None:
        """Remove the files of a database that no cell owns any more."""
        path = self.database_file(database)
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)

    def cell_of(self, worker: str) -> Cell | None:
        return next((cell for cell in self._cells.values() if worker in cell.plan.names), None)

    def kill(self, worker: str) -> None:
        """SIGKILL the cell of `worker` at once; its supervisor starts it again."""
        if cell := self.cell_of(worker):
            cell.process.kill()

    async def ready(self, worker: str) -> None:
        """Return when `worker` can take requests. Raises `CellError`."""
        if not (cell := self.cell_of(worker)):
            raise CellDown(f"{worker} is not deployed")
        await cell.process.ready()

    async def warm(self, worker: str) -> None:
        """Boot the interpreter of a Python Worker and import its code. Raises `CellError`."""
        if not (cell := self.cell_of(worker)):
            raise CellDown(f"{worker} is not deployed")
        answer = await self._post(cell, "/warm", {"worker": worker}, WARM_TIMEOUT)
        if error := answer.get("error"):
            raise CellError(str(error["message"]))

    async def deliver(self, worker: str, queue: str, messages: list[JsonObject]) -> JsonObject:
        """Hand a batch to the queue handler of `worker`; its outcome, or `CellError`."""
        if not (cell := self.cell_of(worker)):
            raise CellDown(f"{worker} is not deployed")
        batch = {"worker": worker, "queue": queue, "messages": messages}
        return await self._post(cell, "/queue", batch, QUEUE_TIMEOUT)

    async def query(self, database: str, statements: list[JsonObject]) -> JsonObject:
        """Run statements as one transaction in the cell that owns `database`."""
        try:
            return await self._post(
                await self._owner(database), f"/d1/{database}", {"statements": statements}, D1_TIMEOUT
            )
        except CellError as error:
            raise ApiError(500, 7500, f"the database can't be reached: {error}") from error

    async def _owner(self, database: str) -> Cell:
        for _ in range(2):
            for cell in self._cells.values():
                if database in cell.plan.databases:
                    return cell
            async with self._changing:
                await self._reconcile(spare=True)
        raise CellError(f"no process owns {database}")

    async def _post(
        self, cell: Cell, path: str, body: JsonObject, seconds: float, method: str = "POST"
    ) -> JsonObject:
        control = await cell.process.ready()
        try:
            answer = await self._http.request(method, control + path, json=body, timeout=seconds)
        except httpx.ConnectError as error:
            raise CellDown(f"{cell.plan.label} does not listen") from error
        except httpx.HTTPError as error:
            raise CellError(f"{cell.plan.label} went away: {error or type(error).__name__}") from error
        if answer.status_code >= 500 and not answer.headers.get("content-type", "").startswith(
            "application/json"
        ):
            raise CellError(f"{cell.plan.label} answered {answer.status_code}: {answer.text[:300]}")
        result: JsonObject = answer.json()
        return result

    def states(self) -> list[JsonObject]:
        return [
            {
                "workers": list(cell.plan.names),
                "databases": list(cell.plan.databases),
                "state": cell.process.state,
                "pid": cell.process.pid,
                "restarts": cell.process.restarts,
            }
            for cell in self._cells.values()
        ]

    # logs

    def log_path(self, worker: str) -> Path:
        return self._logs / f"{worker}.log"

    def _log(self, cell: CellPlan, line: str) -> None:
        """A Worker's line goes to its own log; what the host itself says, to those of all in the cell."""
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if isinstance(message, dict) and message.get("worker") in cell.names:
            text = f"{message.get('level', 'log')}: {message.get('message', '')}"
            append(self.log_path(str(message["worker"])), text)
            return
        for name in cell.names or ("databases",):
            append(self.log_path(name), line)


def append(path: Path, line: str) -> None:
    """Add a line; past `LOG_BYTES` the file becomes `<name>.log.1` and a new one begins."""
    if path.exists() and path.stat().st_size > LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    with path.open("a") as file:
        file.write(line + "\n")
