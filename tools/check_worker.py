"""`python -m tools.check_worker`: renders Workers and type-checks them as they would be deployed."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from infra.bundle import render, write_project
from infra.config import RagConfig

ROOT = Path(__file__).resolve().parent.parent

# Between them, every branch of the templates is rendered.
CONFIGS: dict[str, dict[str, Any]] = {
    "keys": {
        "name": "keys",
        "metadata": {
            "chapter": {"type": "string", "enum": ["a", "b"], "description": "A chapter"},
            "words": {"type": "number"},
            "draft": {"type": "boolean"},
            "note": {"type": "string", "filterable": False},
        },
        "rateLimit": {"limit": 100},
        "cors": {"origins": ["*"]},
    },
    "secret": {
        "name": "secret",
        "auth": {"mode": "secret"},
        "docsPublic": True,
        "dashboard": False,
        "tags": {"maxPerDocument": 4},
    },
    "service": {
        "name": "service",
        "auth": {"mode": "service"},
        "embedding": {"model": "@cf/qwen/qwen3-embedding-0.6b"},
    },
}


def check(config: dict[str, Any], folder: Path) -> bool:
    """Whether the rendered Worker's own modules pass `mypy --strict`; what they don't pass is printed."""
    write_project(render(RagConfig.from_pulumi(config)), folder)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "tools/worker-mypy.ini"), "src"]
    cache = ROOT / ".mypy_cache/worker"
    environment = os.environ | {"MYPYPATH": "src", "MYPY_CACHE_DIR": str(cache / config["name"])}
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode == 0


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        results = [check(config, Path(scratch) / name) for name, config in CONFIGS.items()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
