"""What is changed in miniflare once it is installed, so that a cell starts in half the time."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from local.cells import HOST_SCRIPT

FOLDER = HOST_SCRIPT.parent
SETTING = "var MIN_SINGLE_SEGMENT_GROWTH = {};\n"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The script beside a miniflare whose one file can be written."""
    shutil.copy(FOLDER / "postinstall.mjs", tmp_path)
    package = tmp_path / "node_modules/miniflare"
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"name": "miniflare", "main": "index.js"}))
    return package / "index.js"


def run(installed: Path) -> subprocess.CompletedProcess[str]:
    script = installed.parents[2] / "postinstall.mjs"
    return subprocess.run(["node", str(script)], capture_output=True, text=True, check=False)


def test_the_buffer_grows_in_large_steps_however_often_it_is_installed(installed: Path) -> None:
    installed.write_text(f"before();\n{SETTING.format(4096)}after();\n")
    for _ in range(2):
        assert run(installed).returncode == 0
        assert installed.read_text() == f"before();\n{SETTING.format(4_194_304)}after();\n"


def test_a_miniflare_without_it_is_noticed(installed: Path) -> None:
    installed.write_text("before();\n")
    done = run(installed)
    assert done.returncode == 1
    assert "MIN_SINGLE_SEGMENT_GROWTH is set 0 times" in done.stderr


def test_the_one_that_is_used_here_is_changed() -> None:
    source = (FOLDER / "node_modules/miniflare/dist/src/index.js").read_text()
    assert re.findall(r"MIN_SINGLE_SEGMENT_GROWTH = (\d+);", source) == ["4194304"]
