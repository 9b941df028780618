"""Where the runtime keeps the databases: one SQLite file each, named as miniflare does."""

import hashlib
import hmac
from pathlib import Path

_NAMESPACE = "miniflare-D1DatabaseObject"


def database_file(folder: Path, database: str) -> Path:
    """The file of `database` (its uuid): the Durable Object id that miniflare derives from the name."""
    key = hashlib.sha256(_NAMESPACE.encode()).digest()
    name = hmac.digest(key, database.encode(), "sha256")[:16]
    ident = (name + hmac.digest(key, name, "sha256")[:16]).hex()
    return folder / _NAMESPACE / f"{ident}.sqlite"


def size(folder: Path, database: str) -> int:
    """Bytes on disk, 0 before the first use."""
    return sum(path.stat().st_size for path in _files(folder, database) if path.exists())


def remove(folder: Path, database: str) -> None:
    """Delete a database that no process has open any more."""
    for path in _files(folder, database):
        path.unlink(missing_ok=True)


def _files(folder: Path, database: str) -> list[Path]:
    path = database_file(folder, database)
    return [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
