"""The Worker's Python packages: downloaded once by a hash-locked list, then used offline."""

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from infra.bundle.manifest import VENDORED, Module, module
from infra.errors import BundleError

LOCK = Path(__file__).resolve().parents[2] / "worker_template" / "requirements.lock"

_PLATFORM = ("--platform", "pyemscripten_2026_0_wasm32", "--python-version", "314")
_ABI = ("--implementation", "cp", "--abi", "cp314", "--only-binary", ":all:")
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)

# Raise with any change of what is kept: it is part of the cache's key.
_PRUNING = "1"
# .pth: the runtime SDK hooks its patches for imports in through one.
_KEPT_SUFFIXES = (".py", ".so", ".js", ".mjs", ".pth")
# The entry points choose opentelemetry's context; the metadata answers `importlib.metadata.version`.
_KEPT_METADATA = ("METADATA", "entry_points.txt")
_UNUSED = (
    # FastAPI asks for it on every annotation, and does without where it is missing.
    "pydantic/v1/",
    "pydantic/mypy.py",
    "anyio/pytest_plugin.py",
    "anyio/_backends/_trio.py",
    "fastapi/.agents/",
    "fastapi/cli.py",
    "fastapi/__main__.py",
    "fastapi/testclient.py",
    "starlette/testclient.py",
    "idna/cli.py",
    "idna/__main__.py",
)


class Vendored(NamedTuple):
    """The vendored modules, the versions they come from, and their size together when gzipped."""

    modules: tuple[Module, ...]
    packages: dict[str, str]
    gzip_bytes: int


def load(home: Path, lock: Path = LOCK) -> Vendored:
    """The packages of `lock`, from the cache under `home` or downloaded into it.

    Raises BundleError when they can't be had, or when a cached file isn't what was put there.
    """
    folder = ensure(home, lock)
    index = json.loads((folder / "vendor.json").read_text())
    modules = tuple(
        _verified(folder / "modules" / path, path, expected) for path, expected in index["files"].items()
    )
    return Vendored(modules, index["packages"], index["gzipBytes"])


def ensure(home: Path, lock: Path = LOCK) -> Path:
    """The folder of the cached packages, filled first where it is missing. Raises BundleError."""
    folder = home / "cache" / "python_modules" / _cache_key(lock)
    if not (folder / "vendor.json").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as temporary:
            _fill(Path(temporary), lock)
            _publish(Path(temporary) / "out", folder)
    return folder


def packages(lock: Path = LOCK) -> dict[str, str]:
    """Names and versions that a lock file pins."""
    return dict(_PINNED.findall(lock.read_text()))


def _cache_key(lock: Path) -> str:
    return hashlib.sha256(lock.read_bytes() + _PRUNING.encode()).hexdigest()[:16]


def _verified(path: Path, name: str, expected: str) -> Module:
    found = module(VENDORED + name, path.read_bytes())
    if found.sha256 != expected:
        raise BundleError(f"{path} was changed after it was downloaded; remove its folder and run again")
    return found


def _fill(work: Path, lock: Path) -> None:
    wheels, modules = work / "wheels", work / "out" / "modules"
    _download(lock, wheels)
    for wheel in sorted(wheels.glob("*.whl")):
        _unpack(wheel, modules)
    files = {path.relative_to(modules).as_posix(): path for path in modules.rglob("*") if path.is_file()}
    contents = {name: files[name].read_bytes() for name in sorted(files)}
    index = {
        "packages": packages(lock),
        "gzipBytes": len(gzip.compress(b"".join(contents.values()), mtime=0)),
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
    }
    (work / "out" / "vendor.json").write_text(json.dumps(index, indent=1))


def _download(lock: Path, into: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    source = ["--no-deps", "--require-hashes", "--requirement", str(lock), "--dest", str(into)]
    done = subprocess.run([*pip, *source, *_PLATFORM, *_ABI], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise BundleError(
            f"the Worker's Python packages ({lock.name}) can't be downloaded; "
            f"this needs a package index once, later runs are offline:\n{reason}"
        )


def _unpack(wheel: Path, into: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        # ZipFile.extract drops drive letters and "..": nothing lands outside.
        for name in archive.namelist():
            if needed(name):
                archive.extract(name, into)


def needed(name: str) -> bool:
    """Whether a Worker can use this file of a wheel."""
    path = PurePosixPath(name)
    if name.endswith("/") or name.startswith(_UNUSED) or {"tests", "test"} & set(path.parts[:-1]):
        return False
    if path.parts[0].endswith(".dist-info"):
        return len(path.parts) == 2 and path.name in _KEPT_METADATA
    return path.suffix in _KEPT_SUFFIXES


def _publish(ready: Path, folder: Path) -> None:
    """Put a finished folder in place; where another process was first, its result is as good."""
    try:
        ready.rename(folder)
    except OSError:
        if not (folder / "vendor.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            ready.rename(folder)
