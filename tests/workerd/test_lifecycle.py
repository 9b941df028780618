"""How a cell starts, fails to start and ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.workerd.support import CELL, PATIENCE, Cell, Json, Shop, StartCell, launch


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A process nobody has waited for yet is gone as well.
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return not state.startswith("Z") and state != ""


def gone(pid: int, seconds: float = PATIENCE) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def cell(start_cell: StartCell) -> Cell:
    return start_cell()


def test_sigterm_ends_it_cleanly(cell: Cell) -> None:
    assert cell.stop() == 0
    assert gone(cell.ready["workerdPid"])


def test_workerd_does_not_outlive_a_killed_node(cell: Cell) -> None:
    cell.process.kill()
    assert gone(cell.ready["workerdPid"])


def test_end_of_stdin_ends_it(cell: Cell) -> None:
    assert cell.process.stdin
    cell.process.stdin.close()
    assert cell.process.wait(timeout=PATIENCE) == 0
    assert gone(cell.ready["workerdPid"])


PARENT = """
import subprocess, sys
cell = subprocess.Popen(["node", *sys.argv[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
print(cell.stdout.readline().decode(), end="", flush=True)
cell.wait()
"""


def test_killed_parent_takes_it_along(cell: Cell) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(CELL), str(cell.file)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout
    with parent, parent.stdout:
        ready: Json = json.loads(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    assert gone(ready["pid"])
    assert gone(ready["workerdPid"])


def test_workerd_that_dies_ends_the_cell_with_a_reason(cell: Cell) -> None:
    os.kill(cell.ready["workerdPid"], signal.SIGKILL)
    assert cell.ended() == 1
    assert cell.logged("workerd stopped unexpectedly")


def ends_with(config: Json, folder: Path) -> str:
    """The last words of a cell that can't start."""
    file = folder / "cell.json"
    file.write_text(json.dumps(config))
    cell = launch(file, config)
    assert cell.ended() == 1
    return str(cell.logged("the cell did not start")["message"])


def test_port_that_is_taken_is_named(cell: Cell, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"the address 127.0.0.1:{port} is in use" in ends_with(
            cell.config | {"controlPort": port}, tmp_path
        )


def test_binding_that_is_not_served_locally_is_named(cell: Cell, shop: Shop, tmp_path: Path) -> None:
    entry = shop.written("odd", "", [{"type": "r2_bucket", "name": "FILES"}])
    words = ends_with(cell.config | {"workers": [entry]}, tmp_path)
    assert 'Worker "odd": binding "FILES" has the type "r2_bucket"' in words


def test_service_that_is_not_in_the_cell_is_named(cell: Cell, shop: Shop, tmp_path: Path) -> None:
    entry = shop.written("lonely", "", [{"type": "service", "name": "RAG", "service": "absent"}])
    words = ends_with(cell.config | {"workers": [entry]}, tmp_path)
    assert 'Worker "lonely": binding "RAG" is to the Worker "absent", which is not in this cell' in words
