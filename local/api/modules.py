"""Uploaded modules: stored once by content, laid out as files where a version runs."""

import asyncio
import gzip
import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from infra.catalog import WORKER_GZIP_BYTES
from local.envelope import ApiError
from local.state import Module

# Workers limits, newest age: 64 MiB uncompressed on every plan.
RAW_BYTES = 64 * 1024 * 1024
CONTENT_TYPES = {
    "application/javascript+module",
    "text/javascript+module",
    "application/javascript",
    "text/javascript",
    "text/x-python",
    "text/x-python-requirement",
    "application/wasm",
    "text/plain",
    "application/octet-stream",
    "application/source-map",
    "application/json",
}
TOO_LARGE, INVALID_UPLOAD = 10027, 10021


@dataclass(frozen=True)
class Upload:
    name: str
    content_type: str
    content: bytes


class ModuleStore:
    """Blobs under `<home>/modules/<sha256>`, running versions under `<home>/bundles/<version>`."""

    def __init__(self, home: Path) -> None:
        self._blobs = home / "modules"
        self._bundles = home / "bundles"
        self._blobs.mkdir(parents=True, exist_ok=True)
        self._bundles.mkdir(parents=True, exist_ok=True)
        # Held from saving blobs until a version names them, so that `forget` can't take them in between.
        self.changing = asyncio.Lock()

    def save(self, uploads: list[Upload]) -> list[Module]:
        return [self._save(upload) for upload in uploads]

    def _save(self, upload: Upload) -> Module:
        digest = hashlib.sha256(upload.content).hexdigest()
        path = self._blobs / digest
        if not path.exists():
            partial = path.with_suffix(".partial")
            partial.write_bytes(upload.content)
            partial.replace(path)
        return Module(upload.name, upload.content_type, digest, len(upload.content))

    def content(self, module: Module) -> bytes:
        return (self._blobs / module.sha256).read_bytes()

    def lay_out(self, version_id: str, modules: list[Module]) -> Path:
        """The folder of a version, every module as a file under its name."""
        target = self._bundles / version_id
        if target.exists():
            return target
        partial = self._bundles / f"{version_id}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        for module in modules:
            path = partial / module.name
            path.parent.mkdir(parents=True, exist_ok=True)
            os.link(self._blobs / module.sha256, path)
        partial.rename(target)
        return target

    def tidy(self, running: set[str]) -> None:
        """Remove the folders of versions that don't run: they can be laid out again."""
        for folder in self._bundles.iterdir():
            if folder.name not in running:
                shutil.rmtree(folder)

    def forget(self, version_ids: list[str], used: set[str]) -> None:
        """Remove the folders of these versions and every blob that is not in `used`."""
        for version_id in version_ids:
            shutil.rmtree(self._bundles / version_id, ignore_errors=True)
        for blob in self._blobs.iterdir():
            if blob.name not in used:
                blob.unlink()


def check_modules(main_module: str | None, uploads: list[Upload], gzip_limit: int) -> None:
    """Refuse what Cloudflare refuses: a missing main module, bad names and types, too many bytes."""
    names: set[str] = set()
    for upload in uploads:
        check_name(upload.name)
        if upload.name in names:
            raise invalid(f'The module "{upload.name}" is there twice.')
        if upload.content_type not in CONTENT_TYPES:
            raise invalid(f'The module "{upload.name}" has the unknown type {upload.content_type}.')
        names.add(upload.name)
    if not main_module or main_module not in names:
        raise invalid(f'No such module "{main_module or ""}": main_module must name an uploaded module.')
    _check_size(uploads, gzip_limit)


def _check_size(uploads: list[Upload], gzip_limit: int) -> None:
    raw = sum(len(upload.content) for upload in uploads)
    if raw > RAW_BYTES:
        raise ApiError(
            413, TOO_LARGE, f"Your Worker exceeded the size limit of 64 MiB uncompressed: {raw:,} bytes."
        )
    packed = len(gzip.compress(b"".join(upload.content for upload in uploads), 6))
    if packed > gzip_limit:
        raise ApiError(
            413,
            TOO_LARGE,
            f"Your Worker exceeded the size limit of {gzip_limit:,} bytes gzipped: {packed:,} bytes"
            f" ({WORKER_GZIP_BYTES.source}).",
        )


def check_name(name: str) -> None:
    """A module name becomes a path: nothing that leaves the folder of its version."""
    parts = name.split("/")
    if "\\" in name or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise invalid(f'"{name}" can\'t be the name of a module.')


def invalid(message: str) -> ApiError:
    return ApiError(400, INVALID_UPLOAD, message)
