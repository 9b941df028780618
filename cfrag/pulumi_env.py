"""The environment in which the real Pulumi CLI works on the local stack, and on nothing else."""

import os
import secrets
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from infra.bundle import store

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / ".cfrag/tools/bin"
STACK = "local"
TEMPLATE = ROOT / "examples/python_docs/Pulumi.local.yaml"

# A person's own Pulumi: its login, its project's stack and its passphrase have no say here.
_NOT_OURS = (
    "PULUMI_ACCESS_TOKEN",
    "PULUMI_API",
    "PULUMI_CONFIG_PASSPHRASE",
    "PULUMI_STACK",
    "PULUMI_OPTION_CONFIG_FILE",
    "CLOUDFLARE_API_KEY",
    "CLOUDFLARE_API_TOKEN",
    "CLOUDFLARE_BASE_URL",
    "CLOUDFLARE_EMAIL",
)


class LocalApi(NamedTuple):
    """Where the Cloudflare on this machine answers, and as whom."""

    base_url: str
    token: str
    account_id: str


def pulumi_variables(home: Path | None = None, api: LocalApi | None = None) -> dict[str, str]:
    """The variables to set, for the stack kept under `home` (`.cfrag`, or CFRAG_HOME, by default).

    Folders and a random passphrase are made where they are missing.
    """
    home = (home or store.home()).resolve()
    state = home / "pulumi/state"
    for folder in (state, home / "pulumi/home"):
        folder.mkdir(parents=True, exist_ok=True)
    python = Path(sys.executable).parent
    path = [str(python), str(TOOLS), *(part for part in os.environ.get("PATH", "").split(os.pathsep) if part)]
    variables = {
        "PATH": os.pathsep.join(dict.fromkeys(path)),
        "CFRAG_HOME": str(home),
        "PULUMI_HOME": str(home / "pulumi/home"),
        "PULUMI_BACKEND_URL": state.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(secret_file(home / "pulumi/passphrase")),
        "PULUMI_PYTHON_CMD": sys.executable,
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }
    if config_file(home).parent != ROOT:
        variables["PULUMI_OPTION_CONFIG_FILE"] = str(config_file(home))
    if api:
        variables |= {
            "CLOUDFLARE_BASE_URL": api.base_url,
            "CLOUDFLARE_API_TOKEN": api.token,
            "CLOUDFLARE_ACCOUNT_ID": api.account_id,
        }
    return variables


def pulumi_env(home: Path | None = None, api: LocalApi | None = None) -> dict[str, str]:
    """The whole environment for a child process: this one's, less what would lead it elsewhere."""
    return inherited(os.environ) | pulumi_variables(home, api)


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in _NOT_OURS}


def unwanted_variables() -> tuple[str, ...]:
    """What a shell must unset before it works on the local stack."""
    return _NOT_OURS


def config_file(home: Path) -> Path:
    """The local stack's config: beside the other stacks', or in a `home` that isn't the project's own."""
    folder = ROOT if home.resolve() == ROOT / ".cfrag" else home.resolve()
    return folder / f"Pulumi.{STACK}.yaml"


def pulumi_executable(environment: Mapping[str, str]) -> str | None:
    return shutil.which("pulumi", path=environment["PATH"])


def secret_file(path: Path) -> Path:
    """A file with 32 random bytes in hexadecimal, made once, readable by its owner only."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as output:
            output.write(secrets.token_hex(32))
        try:
            os.link(unfinished, path)  # the first of several processes wins
        except FileExistsError:
            pass
        finally:
            unfinished.unlink()
    return path
