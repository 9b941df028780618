"""The `cloudflare` plugin of the local stack: the official one where it can be had, else the stand-in."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from cfrag.errors import Unreachable
from cfrag.pulumi_env import ROOT

STAND_IN = ROOT / "local/provider"
_DOWNLOAD_SECONDS = 300


def ensure_cloudflare_plugin(environment: Mapping[str, str]) -> str:
    """Installs the plugin into the local stack's own PULUMI_HOME where it is missing or out of date.

    Returns what is installed, "official" or "stand-in". Nothing is changed in the person's own folder.
    """
    wanted = version("pulumi-cloudflare")
    plugins = Path(environment["PULUMI_HOME"]) / "plugins"
    record = plugins / "cloudflare-source"
    folder = plugins / f"resource-cloudflare-v{wanted}"
    stand_in = f"stand-in {folder_digest(STAND_IN)}"
    known = record.read_text() if record.exists() and folder.exists() else ""
    if known in (f"official {wanted}", stand_in):
        return known.split()[0]
    source = stand_in
    if _install_official(wanted, environment):
        source = f"official {wanted}"
    else:
        shutil.rmtree(folder, ignore_errors=True)
        _install(["resource", "cloudflare", wanted, "--file", str(STAND_IN)], environment)
    record.write_text(source)
    return source.split()[0]


def _install_official(wanted: str, environment: Mapping[str, str]) -> bool:
    own = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    found = own / "plugins" / f"resource-cloudflare-v{wanted}"
    if (found / "pulumi-resource-cloudflare").exists() and own != Path(environment["PULUMI_HOME"]):
        _install(["resource", "cloudflare", wanted, "--file", str(found)], environment)
        return True
    if not _is_official_cli(environment):
        return False
    command = ["pulumi", "plugin", "install", "resource", "cloudflare", wanted]
    try:
        done = subprocess.run(
            command, env=dict(environment), capture_output=True, timeout=_DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _is_official_cli(environment: Mapping[str, str]) -> bool:
    """Whether the CLI is a release, with every language's host beside it; then plugins can be had too."""
    found = shutil.which("pulumi", path=environment["PATH"])
    return found is not None and (Path(found).resolve().parent / "pulumi-language-nodejs").exists()


def _install(arguments: list[str], environment: Mapping[str, str]) -> None:
    command = ["pulumi", "plugin", "install", *arguments, "--reinstall"]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unreachable(f"installing the cloudflare plugin failed: {(done.stderr or done.stdout).strip()}")


def folder_digest(folder: Path) -> str:
    """A digest of the names and contents below a folder, compiled files left out."""
    digest = hashlib.sha256()
    for file in _files(folder):
        digest.update(f"{file.relative_to(folder).as_posix()}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(
        file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts
    )
