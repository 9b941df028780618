"""Importing the Worker does nothing but define things, in every configuration."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .loading import rendered

SCRIPT = Path(__file__).with_name("pure_import.py")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"auth": {"mode": "secret"}},
        {"auth": {"mode": "service"}},
        {
            "cors": {"origins": ["*"]},
            "rateLimit": {"limit": 5},
            "mcp": {"authorizationServers": ["https://a"]},
        },
    ],
)
def test_no_randomness_time_or_io_at_module_level(config: dict[str, Any]) -> None:
    done = run(rendered(**config).folder)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30


@pytest.mark.parametrize(
    "line",
    [
        "import os; os.urandom(1)",
        "import time; NOW = time.time()",
        "import uuid; ID = uuid.uuid4()",
        "import secrets; KEY = secrets.token_hex(16)",
        "import random; X = random.random()",
        "open('/etc/hostname').close()",
        "import socket; socket.socket()",
    ],
)
def test_the_test_itself_sees_what_is_forbidden(tmp_path: Path, line: str) -> None:
    (tmp_path / "entry.py").write_text(line + "\n")
    done = run(tmp_path)
    assert done.returncode == 1
    assert "at module level" in done.stderr


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, timeout=120)
