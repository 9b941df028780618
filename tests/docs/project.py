"""A copy of this project, in which a test may change settings, commit and deploy."""

import os
import shutil
import sys
from pathlib import Path

from cfrag.pulumi_env import ROOT, TOOLS
from tests.deployed import Deployed

_FOLDERS = ("cfrag", "examples", "infra", "local", "migrations", "tools", "worker_template")
_FILES = (
    "__main__.py",
    "Pulumi.yaml",
    "Pulumi.dev.yaml",
    "Pulumi.staging.yaml",
    "Pulumi.prod.yaml",
    "pyproject.toml",
    ".gitignore",
)


def copy_project(folder: Path) -> Path:
    """The project's own files, without what is built or installed; `.venv` leads to this one's."""
    left_out = shutil.ignore_patterns("__pycache__", "node_modules")
    folder.mkdir(parents=True)
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for name in _FILES:
        shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / ".cfrag").mkdir()
    (folder / ".cfrag/cache").symlink_to(ROOT / ".cfrag/cache", target_is_directory=True)
    return folder


def environment(project: Path, deployed: Deployed) -> dict[str, str]:
    """A shell in the copy, with the official variables of the Cloudflare on this machine, and its plugins."""
    api = deployed.cloudflare.api
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "CFRAG_"))}
    return kept | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], str(TOOLS)]),
        # Before the installed cfrag, which is the project itself.
        "PYTHONPATH": str(project),
        "PULUMI_HOME": deployed.stack.environment["PULUMI_HOME"],
        "PULUMI_PYTHON_CMD": sys.executable,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "CLOUDFLARE_BASE_URL": api.base_url,
        "CLOUDFLARE_API_TOKEN": api.token,
        "CLOUDFLARE_ACCOUNT_ID": api.account_id,
        "COLUMNS": "120",
    }
