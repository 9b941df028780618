"""What a `pulumi` that was killed leaves in a backend of files: a lock, and a state that is half written."""

import contextlib
import json
import os
import shutil
import socket
import time
from pathlib import Path
from typing import Any

# A process that was killed is still there for a moment.
_ENDING_SECONDS = 2.0


def worked_on_by(folder: Path, stack: str) -> int | None:
    """The process of this machine that works on a stack, if one does."""
    pids = [lock["pid"] for lock in _locks(folder, stack) if lock["hostname"] == socket.gethostname()]
    return next((pid for pid in pids if not ends_soon(pid)), None)


def _locks(folder: Path, stack: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for file in (folder / ".pulumi/locks").rglob("*.json"):
        # One that is released at this moment is none.
        with contextlib.suppress(FileNotFoundError):
            if file.parent.name == stack:
                found.append(json.loads(file.read_text()))
    return found


def take_back(folder: Path, stack: str) -> bool:
    """Mend the states of a stack where nobody works on it any more; whether it did, and a lock is left.

    `folder` is that of the backend, with `.pulumi` in it. A `pulumi` that runs, or that ran on another
    machine, keeps its stack.
    """
    locks = _locks(folder, stack)
    here = all(lock["hostname"] == socket.gethostname() for lock in locks)
    if not here or not all(ends_soon(lock["pid"]) for lock in locks):
        return False
    for state in (folder / ".pulumi/stacks").rglob(f"{stack}.json"):
        mend(state)
    return bool(locks)


def mend(state: Path) -> None:
    """Put a state's backup in its place where a kill has cut short its writing, which is not one step.

    The file beside it, with its content type and its like, is written first, and may be missing.
    """
    about = state.with_name(f"{state.name}.attrs")
    if about.exists() and not _is_json(about):
        about.unlink()
    backup = state.with_name(f"{state.name}.bak")
    if not _is_json(state) and backup.exists() and _is_json(backup):
        whole = state.with_name(f"{state.name}.{os.getpid()}.mended")
        shutil.copyfile(backup, whole)
        whole.replace(state)


def _is_json(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except ValueError:
        return False
    return True


def ends_soon(pid: int) -> bool:
    """Whether a process is dead, or about to be: one that was killed needs a moment to end."""
    deadline = time.monotonic() + _ENDING_SECONDS
    while not is_dead(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def is_dead(pid: int) -> bool:
    """Whether no such process runs; one that has ended but still waits to be collected doesn't run."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    try:
        # "pid (name) state …": the name may hold anything, so the last bracket counts.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except FileNotFoundError:
        # No /proc on this system, or the process has just gone; then the next try finds out.
        return False
