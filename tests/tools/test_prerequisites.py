import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cfrag.pulumi_env import ROOT
from tools.prerequisites import found_version, missing


def program(folder: Path, name: str, output: str) -> None:
    """A command that prints `output`, as a version would be printed."""
    file = folder / name
    file.write_text(f"#!/bin/sh\necho '{output}'\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def check_with(folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "tools/prerequisites.py")]
    environment = os.environ | {"PATH": f"{folder}:/usr/bin-none:/bin-none"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_this_machine_has_what_is_needed() -> None:
    assert missing((3, 11, 0), (20, 0, 0)) == []


@pytest.mark.parametrize(
    ("python", "node", "line"),
    [
        ((3, 10, 4), (20, 1, 0), "Python 3.11 or newer is needed (found 3.10.4)"),
        ((3, 12, 0), (18, 19, 1), "Node.js 20 or newer is needed (found 18.19.1)"),
        ((3, 12, 0), None, "Node.js 20 or newer is needed (found none on PATH)"),
    ],
)
def test_one_line_names_what_is_missing_and_what_was_found(
    python: tuple[int, ...], node: tuple[int, ...] | None, line: str
) -> None:
    (found,) = missing(python, node)
    assert found.startswith(line)


def test_an_old_node_on_path_stops_make_with_one_line(tmp_path: Path) -> None:
    program(tmp_path, "node", "v18.20.1")
    done = check_with(tmp_path)
    assert done.returncode == 1
    assert done.stderr == "cfrag: Node.js 20 or newer is needed (found 18.20.1)\n"


def test_a_good_node_on_path_passes_in_silence(tmp_path: Path) -> None:
    program(tmp_path, "node", "v22.1.0")
    done = check_with(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_program_that_is_not_there_has_no_version() -> None:
    assert found_version(["no-such-program-anywhere"]) is None
