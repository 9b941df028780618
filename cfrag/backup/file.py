"""The backup file: JSON Lines, a header first, then the documents, then an end that shows it is whole."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from cfrag.errors import InputError

FORMAT = 1
HEADER, END = "cfragExport", "cfragExportEnd"
# What the header says of the space.
SPACE = ("generation", "model", "pooling", "dims", "metric", "fingerprint", "since", "maxTags", "fields")

# What reading says of a file that is no gzip, cut off, or damaged.
_DAMAGED = (ValueError, EOFError, gzip.BadGzipFile, zlib.error)
_KINDS: dict[str, Any] = {
    "id": str,
    "title": str | None,
    "body": str,
    "tags": list,
    "metadata": dict,
    "active": bool,
    "contentHash": str,
}

Json = dict[str, Any]


def header(service: str, space: Mapping[str, Any], *, vectors: bool) -> Json:
    """The first line of an export of the service at an address."""
    return {
        HEADER: FORMAT,
        "cfrag": version("cfrag"),
        "service": service.rstrip("/"),
        "name": space["name"],
        **{key: space[key] for key in SPACE},
        "vectors": vectors,
        "exportedAt": now(),
    }


def document_line(document: Mapping[str, Any], values: list[float] | None) -> Json:
    """A document of the API as it is kept."""
    line = {key: document[key] for key in _KINDS}
    return line if values is None else {**line, "values": values}


def encoded(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def opened(path: Path, mode: str) -> IO[bytes]:
    """The file for bytes; compressed where its name ends in .gz."""
    open_file: Any = gzip.open if path.suffix == ".gz" else open
    file: IO[bytes] = open_file(path, mode)
    return file


def end_line(documents: int, unreadable: list[str], digest: str) -> Json:
    """The last line: what is before it, and the SHA-256 of all its bytes."""
    return {
        END: FORMAT,
        "documents": documents,
        "unreadable": unreadable,
        "sha256": digest,
        "finishedAt": now(),
    }


@dataclass(frozen=True)
class Backup:
    """A whole backup file: its header, how many documents it has, and which ones it lacks."""

    path: Path
    header: Json
    documents: int
    unreadable: tuple[str, ...]

    def lines(self) -> Iterator[Json]:
        """The documents, in the order of the file."""
        with opened(self.path, "rb") as file:
            file.readline()
            for _ in range(self.documents):
                yield json.loads(file.readline())


def read_header(path: Path) -> Json:
    """The first line. Raises InputError for a file that is no backup, or one of a later format."""
    try:
        with opened(path, "rb") as file:
            found = json.loads(file.readline(1_000_000))
    except _DAMAGED:
        found = None
    if not isinstance(found, dict) or HEADER not in found:
        raise InputError(f'{path} is no export of cfrag: its first line has no "{HEADER}"')
    if found[HEADER] != FORMAT:
        raise InputError(
            f"{path} is of format {found[HEADER]}, made by cfrag {found.get('cfrag')}; this one reads format "
            f"{FORMAT}: use that version, or a later one"
        )
    if missing := [key for key in ("name", "vectors", *SPACE) if key not in found]:
        raise InputError(f"{path} is no export of cfrag: its first line has no {', '.join(missing)}")
    return found


def checked(path: Path) -> Backup:
    """The file, read through to its end once. Raises InputError where it is none, cut off, or changed."""
    first, digest, count = read_header(path), hashlib.sha256(), -1
    end: Json | None = None
    ids: set[str] = set()
    try:
        with opened(path, "rb") as file:
            for line in file:
                if line.startswith(b'{"%s":' % END.encode()):
                    end = json.loads(line) if line.endswith(b"\n") else None
                    break
                digest.update(line)
                count += 1
                if count:
                    ids.add(_id_of(line, vectors=first["vectors"]))
            more = bool(file.read(1))
    except NoDocument:
        raise InputError(f"{path} is no export of cfrag: line {count + 1} is no document") from None
    except _DAMAGED:
        raise InputError(_cut_off(path)) from None
    if end is None:
        raise InputError(_cut_off(path))
    whole = (end.get("documents"), end.get("sha256")) == (count, digest.hexdigest())
    if more or not whole or len(ids) != count:
        raise InputError(
            f"{path} was changed after it was exported: its end speaks of {end.get('documents')} documents "
            f"with another SHA-256 than the {count} that are here; export again, or take another copy"
        )
    return Backup(path, first, count, tuple(end.get("unreadable") or ()))


class NoDocument(Exception):
    """A line is JSON, but no document."""


def _id_of(line: bytes, *, vectors: bool) -> str:
    """The id in a line. Raises NoDocument for one in which something is missing or of another kind."""
    found = json.loads(line)
    kinds = {**_KINDS, "values": list} if vectors else _KINDS
    if not isinstance(found, dict) or not all(isinstance(found.get(key, ...), kinds[key]) for key in kinds):
        raise NoDocument
    return str(found["id"])


def _cut_off(path: Path) -> str:
    return (
        f"{path} is cut off: its last line is not the end of an export; take a whole copy; where an export "
        "was interrupted, run it again with the same file name"
    )
