"""What a machine must have before `make` can set the project up. Runs on any Python 3, to say so clearly."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

PYTHON = (3, 11)
NODE = (20, 0)


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def found_version(command: list[str]) -> tuple[int, ...] | None:
    """The first dotted number that `command` prints, or None where it can't be run."""
    executable = shutil.which(command[0])
    if executable is None:
        return None
    try:
        done = subprocess.run(
            [executable, *command[1:]], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", done.stdout + done.stderr)
    return tuple(int(part) for part in match.groups() if part is not None) if match else None


def missing(python: tuple[int, ...], node: tuple[int, ...] | None) -> list[str]:
    """One line for each prerequisite that is not met."""
    lines = []
    if python < PYTHON:
        wanted = f"Python {dotted(PYTHON)} or newer is needed (found {dotted(python)})"
        lines.append(wanted + "; name another one with `make PYTHON=python3.12 ...`")
    if node is None:
        lines.append(f"Node.js {NODE[0]} or newer is needed (found none on PATH)")
    elif node < NODE:
        lines.append(f"Node.js {NODE[0]} or newer is needed (found {dotted(node)})")
    return lines


def main() -> int:
    lines = missing(sys.version_info[:3], found_version(["node", "--version"]))
    for line in lines:
        print("cfrag: " + line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
