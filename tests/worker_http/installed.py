"""Programs that nobody here wrote, installed once from hash-locked lists into the project's own folder."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from infra.bundle import store

HERE = Path(__file__).parent


def python_with(lock: Path) -> Path:
    """A Python that has the packages of a lock file, in an environment of its own."""

    def install(folder: Path) -> None:
        uv = Path(sys.executable).with_name("uv")
        python = folder / "bin" / "python"
        run(uv, "venv", "--quiet", "--python", sys.executable, folder)
        run(uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", lock)

    return _once(lock.stem, lock, install) / "bin" / "python"


def npm_packages(project: Path) -> Path:
    """The `node_modules` of a locked npm project."""

    def install(folder: Path) -> None:
        folder.mkdir(parents=True)
        for name in ("package.json", "package-lock.json", ".npmrc"):
            shutil.copy(project / name, folder / name)
        run("npm", "ci", "--silent", "--no-audit", "--no-fund", cwd=folder)

    return _once(project.name, project / "package-lock.json", install) / "node_modules"


def _once(name: str, lock: Path, install: Callable[[Path], None]) -> Path:
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    folder = store.home().resolve() / "cache" / "tests" / f"{name}-{digest}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            install(folder)
            (folder / "complete").touch()
    return folder


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What the command prints. Fails the test with what it says where it fails."""
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command[0]} failed: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout
