"""One cell: a Node process in a process group of its own, started again whenever it ends."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

READY_SECONDS = 60.0
STOP_SECONDS = 5.0
SHORT_LIFE_SECONDS = 10.0
# Before the next start, by how many short lives came before it.
BACKOFF_SECONDS = (0.0, 0.0, 0.1, 0.3, 1.0, 3.0, 5.0)
# Output of one line; a Worker may log a whole stack trace in one.
LINE_BYTES = 1 << 20

LogLine = Callable[[str], None]


class CellError(Exception):
    """A cell does not start, or not in time. The message ends with what it printed last."""


class CellDown(CellError):
    """A cell can't be called at all: nothing of the call has happened."""


class CellProcess:
    """Runs `command` and keeps it running until `stop`."""

    def __init__(self, label: str, command: Sequence[str], pid_file: Path, log: LogLine) -> None:
        self.label = label
        self.control: str | None = None
        self.pid: int | None = None
        self.restarts = 0
        self._command = list(command)
        self._pid_file = pid_file
        self._log = log
        self._tail: deque[str] = deque(maxlen=8)
        self._ready = asyncio.Event()
        self._failures = 0
        self._stopping = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        if self._ready.is_set():
            return "running"
        return "failing" if self._failures > 1 else "starting"

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_running(), name=f"cell {self.label}")

    async def ready(self, within: float = READY_SECONDS) -> str:
        """The address of the control server, once it answers. Raises `CellError`."""
        deadline = time.monotonic() + within
        while not self._ready.is_set():
            if self._stopping:
                raise CellDown(f"{self.label}: stopped")
            if self._failures > 1 or time.monotonic() > deadline:
                raise CellDown(self.last_words)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), 0.1)
        assert self.control
        return self.control

    @property
    def last_words(self) -> str:
        """What it printed last, each message once."""
        return " | ".join(dict.fromkeys(map(_message, self._tail))) or "it printed nothing"

    def kill(self) -> None:
        """SIGKILL to the whole group, as a crash would be; it is started again."""
        self._ready.clear()
        if self.pid is not None:
            kill_group(self.pid, signal.SIGKILL)

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL after `STOP_SECONDS`; returns when nothing of the group is left."""
        self._stopping = True
        self._ready.clear()
        self._wake.set()
        if self.pid is not None:
            kill_group(self.pid, signal.SIGTERM)
        if self._task is None:
            return
        done, _ = await asyncio.wait([self._task], timeout=STOP_SECONDS)
        if not done and self.pid is not None:
            kill_group(self.pid, signal.SIGKILL)
        await self._task

    def _is_stopping(self) -> bool:
        """Asked anew after a wait, in which it may have changed."""
        return self._stopping

    async def _keep_running(self) -> None:
        short_lives = 0
        while not self._stopping:
            started = time.monotonic()
            was_ready = await self._run_once()
            self._failures = 0 if was_ready else self._failures + 1
            # A cell that served for a while and died is a new story; one that always dies soon is slowed.
            short_lives = short_lives + 1 if time.monotonic() - started < SHORT_LIFE_SECONDS else 0
            if self._is_stopping():
                return
            self.restarts += 1
            self._log(f"cell {self.label} ended and is started again: {self.last_words}")
            with contextlib.suppress(TimeoutError):
                pause = BACKOFF_SECONDS[min(short_lives, len(BACKOFF_SECONDS) - 1)]
                await asyncio.wait_for(self._wake.wait(), pause)

    async def _run_once(self) -> bool:
        try:
            process = await self._spawn()
        except OSError as error:
            self._tail.append(str(error))
            return False
        self.pid = process.pid
        self._pid_file.write_text(str(process.pid))
        assert process.stdout
        assert process.stderr
        readers = [
            asyncio.create_task(self._read_stdout(process.stdout)),
            asyncio.create_task(self._read_stderr(process.stderr)),
        ]
        try:
            await process.wait()
        finally:
            was_ready = self.control is not None
            self._ready.clear()
            self.control, self.pid = None, None
            kill_group(process.pid, signal.SIGKILL)  # workerd must not outlive its parent
            self._pid_file.unlink(missing_ok=True)
            # A grandchild that left the group could hold the pipes open for ever.
            await asyncio.wait(readers, timeout=1)
            for reader in readers:
                reader.cancel()
        return was_ready

    async def _spawn(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            stdin=subprocess.PIPE,  # held open: its end tells the child that we are gone, however
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            limit=LINE_BYTES,
        )

    async def _read_stdout(self, stream: asyncio.StreamReader) -> None:
        async for line in _lines(stream):
            message = _json_object(line)
            if message.get("ready") and isinstance(message.get("control"), str):
                self.control = str(message["control"])
                self._ready.set()
            else:
                self._take(line)

    async def _read_stderr(self, stream: asyncio.StreamReader) -> None:
        async for line in _lines(stream):
            self._take(line)

    def _take(self, line: str) -> None:
        self._tail.append(line)
        self._log(line)


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than LINE_BYTES: dropped
            continue
        if not line:
            return
        yield line.decode(errors="replace").rstrip("\n")


def _json_object(line: str) -> dict[str, object]:
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _message(line: str) -> str:
    return str(_json_object(line).get("message", line)).strip()[:500]


def kill_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def end_leftover(pid_file: Path, marker: str) -> None:
    """End what is left of a cell whose server was killed.

    `marker` is text of the cell's command line. A pid alone may belong to someone else by
    now, so only a group that holds the cell, or the workerd of one, is ended.
    """
    try:
        pid = int(pid_file.read_text())
    except (OSError, ValueError):
        return
    shown = subprocess.run(["ps", "-eo", "pgid=,command="], capture_output=True, text=True, check=False)
    for line in shown.stdout.splitlines():
        group, _, command = line.strip().partition(" ")
        if group == str(pid) and (marker in command or "workerd" in command):
            kill_group(pid, signal.SIGKILL)
            break
    pid_file.unlink(missing_ok=True)
