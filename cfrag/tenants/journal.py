"""What has been done so far, on disk, so that a run that was killed goes on where it was."""

import fcntl
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from cfrag.errors import InputError

State = Literal["running", "done", "failed"]


@dataclass
class Entry:
    """The last thing that was done to a tenant's stack. `wanted` is a digest of all that decided it."""

    operation: str
    state: State
    wanted: str
    at: str = ""
    url: str | None = None
    error: str | None = None


@dataclass
class _Content:
    operation: str | None = None
    complete: bool = True
    entries: dict[str, Entry] = field(default_factory=dict)


class Journal:
    """One file, written anew at every change; one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._content = _read(path)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out. Raises InputError where one is at work."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError("another `cfrag tenants` works on these tenants; wait for its end") from None
            self._content = _read(self.path)
            yield

    def entry(self, tenant: str) -> Entry | None:
        return self._content.entries.get(tenant)

    def done_before(self, operation: str, wanted: dict[str, str]) -> set[str]:
        """The tenants that an unfinished run of `operation` has done already, as they are wanted now."""
        if self._content.complete or self._content.operation != operation:
            return set()
        return {
            name
            for name, digest in wanted.items()
            if (entry := self.entry(name))
            and (entry.operation, entry.state, entry.wanted) == (operation, "done", digest)
        }

    def begin(self, operation: str, *, anew: bool) -> None:
        """Note that a run starts; `anew` unless it goes on with an unfinished one."""
        with self._lock:
            self._content.operation, self._content.complete = operation, False
            if anew:
                for entry in self._content.entries.values():
                    entry.wanted = ""
            self._write()

    def note(self, tenant: str, entry: Entry | None) -> None:
        """Set a tenant's entry; None once its stack is gone."""
        with self._lock:
            self._content.entries.pop(tenant, None)
            if entry:
                entry.at = datetime.now(UTC).isoformat(timespec="seconds")
                self._content.entries[tenant] = entry
            self._write()

    def finish(self, *, complete: bool) -> None:
        with self._lock:
            self._content.complete = complete
            self._write()

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(asdict(self._content), indent=1))
        partial.replace(self.path)


def _read(path: Path) -> _Content:
    try:
        raw: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return _Content()
    except ValueError:
        raise InputError(f"{path} can't be read; remove it, and every tenant is looked at again") from None
    entries = {name: Entry(**entry) for name, entry in raw["entries"].items()}
    return _Content(raw["operation"], raw["complete"], entries)
