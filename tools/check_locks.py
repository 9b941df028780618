"""`python -m tools.check_locks`: locks pin with hashes, fit what they lock, and name no registry's host."""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PYTHON_LOCKS = (
    "requirements.lock",
    "requirements-dev.lock",
    "tools/bootstrap.lock",
    "worker_template/requirements.lock",
)
NODE_LOCK = "local/workerd/package-lock.json"
GO_SUMS = ("tools/pulumi/cli/go.sum", "tools/pulumi/python-host/go.sum")

_PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)(.*)")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


class Pin(NamedTuple):
    name: str
    version: str
    hashes: int


def problems(root: Path = ROOT) -> Iterator[str]:
    """One line for each thing that is wrong."""
    for name in PYTHON_LOCKS:
        yield from _python_lock(root / name, name)
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    runtime, dev = declared["dependencies"], declared["optional-dependencies"]["dev"]
    yield from _fits(root / "requirements.lock", runtime)
    yield from _fits(root / "requirements-dev.lock", [*runtime, *dev])
    yield from _same_pins(root / "requirements.lock", root / "requirements-dev.lock")
    yield from _node_lock(root / NODE_LOCK)
    for name in GO_SUMS:
        if not (root / name).is_file():
            yield f"{name} is missing"


def pins(text: str) -> list[Pin]:
    """What a lock pins; a package can have several versions, for different Pythons."""
    lines = text.replace("\\\n", " ").splitlines()
    matches = [match for line in lines if (match := _PIN.match(line))]
    return [Pin(canonicalize_name(match[1]), match[2], len(_HASH.findall(match[3]))) for match in matches]


def _versions(path: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for pin in pins(path.read_text()):
        found.setdefault(pin.name, set()).add(pin.version)
    return found


def _python_lock(path: Path, name: str) -> Iterator[str]:
    text = path.read_text()
    if "://" in text or "index-url" in text:
        yield f"{name} names a host; make it with `make lock`"
    for pin in pins(text):
        if not pin.hashes:
            yield f"{name}: {pin.name}=={pin.version} has no hash"
    if not pins(text):
        yield f"{name} pins nothing"


def _fits(path: Path, requirements: list[str]) -> Iterator[str]:
    locked = _versions(path)
    for requirement in map(Requirement, requirements):
        versions = locked.get(canonicalize_name(requirement.name), set())
        if not versions or not all(requirement.specifier.contains(version) for version in versions):
            has = f"has {', '.join(sorted(versions))}" if versions else "doesn't have it"
            yield f"{path.name}: pyproject.toml wants {requirement}, the lock {has}; run `make lock`"


def _same_pins(runtime: Path, dev: Path) -> Iterator[str]:
    """Tests must run on what is deployed with."""
    tested = _versions(dev)
    for name, versions in _versions(runtime).items():
        if tested.get(name) != versions:
            yield f"{name} differs between {runtime.name} and {dev.name}; run `make lock`"


def _node_lock(path: Path) -> Iterator[str]:
    for name, package in json.loads(path.read_text())["packages"].items():
        if "resolved" in package:
            yield f"{path.name}: {name} names a host; .npmrc must have omit-lockfile-registry-resolved=true"
        if name and not package.get("link") and "integrity" not in package:
            yield f"{path.name}: {name} has no hash"


def main() -> int:
    found = list(problems())
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
