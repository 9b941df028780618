"""What a machine must have before `make` can set the project up. Runs on any Python 3, to say so clearly."""

import re
import shutil
import subprocess
import sys

PYTHON = (3, 11)
NODE = (20, 0)


def dotted(version):  # type: (tuple[int, ...]) -> str
    return ".".join(map(str, version))


def found_version(command):  # type: (list[str]) -> tuple[int, ...] | None
    """The first dotted number that `command` prints, or None where it can't be run."""
    executable = shutil.which(command[0])
    if executable is None:
        return None
    try:
        done = subprocess.run([executable, *command[1:]], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", done.stdout + done.stderr)
    return tuple(int(part) for part in match.groups() if part is not None) if match else None


def missing(python, node):  # type: (tuple[int, ...], tuple[int, ...] | None) -> list[str]
    """One line for each prerequisite that is not met."""
    lines = []
    if python < PYTHON:
        wanted = "Python {} or newer is needed (found {})".format(dotted(PYTHON), dotted(python))
        lines.append(wanted + "; name another one with `make PYTHON=python3.12 ...`")
    if node is None:
        lines.append("Node.js {} or newer is needed (found none on PATH)".format(NODE[0]))
    elif node < NODE:
        lines.append("Node.js {} or newer is needed (found {})".format(NODE[0], dotted(node)))
    return lines


def main():  # type: () -> int
    lines = missing(sys.version_info[:3], found_version(["node", "--version"]))
    for line in lines:
        print("cfrag: " + line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
