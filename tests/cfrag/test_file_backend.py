"""What a killed `pulumi` leaves behind in a folder of states."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cfrag.file_backend import ends_soon, is_dead, take_back

WHOLE, HALF = b'{"version": 3}', b'{"vers'


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Half a state of the stack `one` beside its backup, and half of another stack's."""
    folder = tmp_path / ".pulumi/stacks/cf-rag"
    folder.mkdir(parents=True)
    for name in ("one", "two"):
        (folder / f"{name}.json").write_bytes(HALF)
        (folder / f"{name}.json.bak").write_bytes(WHOLE)
        (folder / f"{name}.json.attrs").write_bytes(b"")
    return folder / "one.json"


def lock(folder: Path, pid: int, host: str) -> None:
    locks = folder / ".pulumi/locks/organization/cf-rag/one"
    locks.mkdir(parents=True)
    (locks / "7a0f.json").write_text(json.dumps({"pid": pid, "username": "me", "hostname": host}))


def dead_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def test_the_state_of_a_stack_that_nobody_works_on_is_mended_and_no_other(
    tmp_path: Path, state: Path
) -> None:
    lock(tmp_path, dead_pid(), socket.gethostname())
    assert take_back(tmp_path, "one")
    assert state.read_bytes() == WHOLE
    assert not state.with_name("one.json.attrs").exists()
    assert state.with_name("two.json").read_bytes() == HALF
    assert not take_back(tmp_path, "two"), "there is no lock to release"
    assert state.with_name("two.json").read_bytes() == WHOLE


@pytest.mark.parametrize("host", [socket.gethostname(), "another-machine"])
def test_a_stack_that_somebody_works_on_is_left_alone(tmp_path: Path, state: Path, host: str) -> None:
    lock(tmp_path, os.getpid() if host == socket.gethostname() else dead_pid(), host)
    assert not take_back(tmp_path, "one")
    assert state.read_bytes() == HALF


def test_a_process_that_has_ended_is_dead_before_anyone_collects_it() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert not is_dead(process.pid)
        process.kill()
        # Not collected yet: `process.wait` comes after this.
        assert ends_soon(process.pid)
    assert is_dead(process.pid)
