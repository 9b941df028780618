"""The rendered Worker of a stack against that of another commit: files as text, packages as versions."""

import difflib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cfrag.errors import InputError
from cfrag.pulumi_env import ROOT
from infra.bundle import store
from infra.bundle.manifest import VENDORED

LINE_CHARS = 240
_DIGEST = re.compile(r"[0-9a-f]{64}")
_VENDOR = "from infra.bundle import store, vendor; vendor.ensure(store.home())"


@dataclass(frozen=True)
class Rendered:
    """A Worker as `cfrag render` writes it: own files by path, packages by name, its size in bytes."""

    digest: str
    files: dict[str, str]
    packages: dict[str, str]
    gzip_bytes: int


@dataclass(frozen=True)
class WorkerDiff:
    """What changes in a Worker; `before` is None where there was no such stack."""

    before: Rendered | None
    after: Rendered

    @property
    def files(self) -> list[str]:
        """Paths of the own files that differ."""
        old = self.before.files if self.before else {}
        return sorted(
            path
            for path in old.keys() | self.after.files.keys()
            if old.get(path) != self.after.files.get(path)
        )

    @property
    def packages(self) -> list[tuple[str, str | None, str | None]]:
        """Name, version before and after of the vendored packages that differ."""
        old, new = (self.before.packages if self.before else {}), self.after.packages
        return [
            (name, old.get(name), new.get(name))
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name)
        ]

    def text(self) -> str:
        """A unified diff of the own files."""
        return "".join(line for path in self.files for line in self._file(path))

    def _file(self, path: str) -> Iterator[str]:
        sides = [(each.files if each else {}).get(path) for each in (self.before, self.after)]
        names = [path if text is not None else "/dev/null" for text in sides]
        old, new = (_lines(text or "") for text in sides)
        for line in difflib.unified_diff(old, new, f"a/{names[0]}", f"b/{names[1]}", n=2):
            yield line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]}…\n"

    def to_json(self) -> dict[str, Any]:
        return {
            "files": self.files,
            "packages": [{"name": name, "from": old, "to": new} for name, old, new in self.packages],
            "gzipBytes": {
                "before": self.before.gzip_bytes if self.before else None,
                "after": self.after.gzip_bytes,
            },
        }


def _lines(text: str) -> list[str]:
    """Lines as a person reads them: a long string of the dashboard is split where it breaks its own lines."""
    lines = []
    for line in text.splitlines(keepends=True):
        parts = re.split(r"(?<=\\n)", line) if len(line) > LINE_CHARS else [line]
        lines += [part if part.endswith("\n") else f"{part}\n" for part in parts if part]
    return lines


@contextmanager
def exported(ref: str) -> Iterator[Path]:
    """The project as it is in a commit, in a folder of its own. Raises InputError for no such commit."""
    with tempfile.TemporaryDirectory(prefix="cfrag-base-") as temporary:
        archive, folder = Path(temporary) / "base.tar", Path(temporary) / "base"
        commit = _git(ref, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        _git(ref, "archive", "--format=tar", "-o", str(archive), commit.strip())
        with tarfile.open(archive) as content:
            content.extractall(folder, filter=_plain)
        yield folder


def _plain(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
    """Files and folders; nothing that is rendered is a link."""
    return tarfile.data_filter(member, path) if member.isfile() or member.isdir() else None


def _git(ref: str, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        why = done.stderr.strip() or "no such commit here (a shallow clone?)"
        raise InputError(f"--base {ref} can't be exported: {why}")
    return done.stdout


def render(stack: str, project: Path, out: Path) -> Rendered:
    """The Worker as the code and the settings in `project` make it. Raises InputError."""
    if _lock(project) != _lock(ROOT):
        _run(project, "-c", _VENDOR)
    _run(project, "-m", "cfrag", "render", "--stack", stack, "--out", str(out), "--json")
    manifest = json.loads((out / "manifest.json").read_text())
    contents = manifest["contents"]
    own = [name for name in manifest["files"] if not name.startswith(VENDORED)]
    return Rendered(
        digest=manifest["digest"],
        files={name: (out / name).read_text() for name in own},
        packages={name: value for name, value in contents.items() if not _DIGEST.fullmatch(value)},
        gzip_bytes=manifest["gzipBytes"],
    )


def _lock(project: Path) -> bytes:
    return (project / "worker_template/requirements.lock").read_bytes()


def _run(project: Path, *arguments: str) -> None:
    """Python with the project's own code in front of what is installed."""
    environment = os.environ | {"PYTHONPATH": str(project), "CFRAG_HOME": str(store.home())}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise InputError(f"the Worker can't be rendered: {done.stderr.strip().removeprefix('cfrag: ')}")


def compare(stack: str, base: Path | None) -> WorkerDiff | None:
    """This checkout's Worker against the one of the `base` folder; None without one."""
    if base is None:
        return None
    with tempfile.TemporaryDirectory(prefix="cfrag-rendered-") as temporary:
        after = render(stack, ROOT, Path(temporary) / "after")
        known = (base / f"Pulumi.{stack}.yaml").exists()
        before = render(stack, base, Path(temporary) / "before") if known else None
        return WorkerDiff(before, after)
