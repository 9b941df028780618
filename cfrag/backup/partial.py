"""An export that is not whole yet: `FILE.partial`, which grows page by page and outlives a kill."""

import fcntl
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

from cfrag.backup.file import HEADER, Json, encoded, end_line, opened
from cfrag.errors import InputError

# What two runs of one export have in common.
_SAME = (
    HEADER,
    "service",
    "name",
    "vectors",
    "generation",
    "model",
    "fingerprint",
    "since",
    "maxTags",
    "fields",
)


# All that a service knows is nothing for everybody on this machine.
_MODE = 0o600


class Held(NamedTuple):
    """The last version of a document in the file: where its line begins, its hash and its flag."""

    at: int
    hash: str
    active: bool


class Partial:
    """The lines so far, within a `with`. Raises InputError for a file of something else, and one in use.

    A half-written last line is cut off; a later line of a document takes the place of an earlier one when
    the file is finished.
    """

    def __init__(self, target: Path, header: Mapping[str, Any]) -> None:
        self.target = target
        self.path = target.with_name(target.name + ".partial")
        self.held: dict[str, Held] = {}
        self.resumed = False
        self._header = header

    def __enter__(self) -> Self:
        self.path.touch(_MODE)
        self._file: IO[bytes] = self.path.open("a+b")
        with ExitStack() as failed:
            failed.callback(self._file.close)
            self._lock()
            self.resumed = self._resume(self._header)
            failed.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            self._file.close()
        except OSError as failure:
            error = error or failure
        if isinstance(error, OSError) and error.filename is None:
            # Such as a disk that is full: what is in the file already stays good.
            reason = f"can't write {self.path}: {error.strerror}; run the export again to go on"
            raise InputError(reason) from None

    @property
    def last(self) -> str | None:
        """The greatest id; all documents up to it have been listed."""
        return max(self.held, default=None)

    def add(self, lines: Iterable[Json]) -> None:
        """Write lines so that a kill of this process can't lose them."""
        at = self._file.seek(0, os.SEEK_END)
        for line in lines:
            self._hold(line, at)
            at += self._file.write(encoded(line))
        self._file.flush()

    def finish(self, present: Collection[str], unreadable: list[str]) -> int:
        """Make the whole file of the last lines of documents that are `present`; how many there are."""
        keep = {held.at for doc_id, held in self.held.items() if doc_id in present}
        # The same suffix, which decides on compression.
        whole = self.target.with_name(f"{self.target.stem}.new{self.target.suffix}")
        digest, at = hashlib.sha256(), 0
        self._file.seek(0)
        whole.touch(_MODE)
        with opened(whole, "wb") as file:
            for line in self._file:
                if at == 0 or at in keep:
                    file.write(line)
                    digest.update(line)
                at += len(line)
            file.write(encoded(end_line(len(keep), unreadable, digest.hexdigest())))
        _to_disk(whole)
        whole.replace(self.target)
        self.path.unlink()
        return len(keep)

    def _hold(self, line: Json, at: int) -> None:
        self.held[line["id"]] = Held(at, line["contentHash"], line["active"])

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another export is writing {self.path}: wait for it") from None

    def _resume(self, header: Mapping[str, Any]) -> bool:
        """Whether there was something to go on with."""
        self._file.seek(0)
        first = self._file.readline()
        if not first.endswith(b"\n"):
            # Killed before even the header was whole.
            self._file.truncate(0)
            self._file.write(encoded(header))
            self._file.flush()
            return False
        self._compare(first, header)
        at = len(first)
        for line in self._file:
            try:
                self._hold(json.loads(line if line.endswith(b"\n") else b""), at)
            except (ValueError, LookupError, TypeError):
                # What is behind a torn line is read again.
                break
            at += len(line)
        self._file.truncate(at)
        return True

    def _compare(self, first: bytes, header: Mapping[str, Any]) -> None:
        try:
            found = json.loads(first)
            differing = [key for key in _SAME if found.get(key) != header[key]]
        except (ValueError, AttributeError):
            found, differing = {}, [HEADER]
        if differing:
            what = "; ".join(f"{key} is {found.get(key)!r} there, {header[key]!r} here" for key in differing)
            raise InputError(
                f"{self.path} is of another export ({what}): remove it to begin anew, or name another file"
            )


def _to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
