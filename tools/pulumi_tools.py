"""Makes sure that there is a Pulumi CLI: one on PATH, the official download, or one built from Go modules."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from tools.prerequisites import dotted, found_version

CLI_VERSION = (3, 274, 1)
HOST_VERSION = (3, 78, 0)  # the newest Python language host that can be had as a Go module of its own
OLDEST_CLI = (3, 272, 0)  # the version of the Python SDK in requirements.lock
OLDEST_GO = (1, 21)  # from here on, `go` fetches or names the newer toolchain that a go.mod asks for

ROOT = Path(__file__).resolve().parent.parent
GO_MODULES = ROOT / "tools/pulumi"
TOOLS = ROOT / ".cfrag/tools"
CLI_PACKAGE = "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"
HOST_PACKAGE = "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"
SDK_MODULE = "github.com/pulumi/pulumi/sdk/v3"
SDK_SCRIPTS = ("cmd/pulumi-language-python-exec", "dist/pulumi-resource-pulumi-python")
OFFICIAL_INSTALLER = "https://get.pulumi.com/install.sh"


class SetupError(Exception):
    """What stops the set-up, as one line for the person who typed `make`."""


def say(line: str) -> None:
    print(f"cfrag: {line}", flush=True)


def usable(pulumi: str) -> bool:
    """Whether this CLI is new enough for the Python SDK and has its Python language host."""
    version = found_version([pulumi, "version"])
    beside = Path(shutil.which(pulumi) or pulumi).resolve().parent / "pulumi-language-python"
    has_host = beside.exists() or shutil.which("pulumi-language-python") is not None
    return version is not None and version >= OLDEST_CLI and has_host


def download(root: Path) -> bool:
    """Installs the official CLI under `root`; False where it can't be reached."""
    try:
        urllib.request.urlopen(OFFICIAL_INSTALLER, timeout=10).close()
    except (urllib.error.URLError, OSError):
        return False
    say(f"downloading the Pulumi CLI v{dotted(CLI_VERSION)}")
    code = (
        "import sys; from semver import VersionInfo; from pulumi.automation import PulumiCommand; "
        "PulumiCommand.install(root=sys.argv[1], version=VersionInfo.parse(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(root), dotted(CLI_VERSION)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0


def build(bin_dir: Path) -> None:
    """Builds the CLI and its Python language host into `bin_dir`."""
    go = found_version(["go", "version"])
    if go is None or go < OLDEST_GO:
        found = f"found {dotted(go)}" if go else "found none on PATH"
        raise SetupError(
            f"no Pulumi CLI v{dotted(OLDEST_CLI)} or newer on PATH and none could be downloaded; "
            f"to build it, Go {dotted(OLDEST_GO)} or newer is needed ({found})"
        )
    say(f"building the Pulumi CLI v{dotted(CLI_VERSION)} from its Go modules; this takes some minutes, once")
    bin_dir.mkdir(parents=True, exist_ok=True)
    go_build(GO_MODULES / "python-host", HOST_PACKAGE, HOST_VERSION, bin_dir / "pulumi-language-python")
    copy_sdk_scripts(bin_dir)
    go_build(GO_MODULES / "cli", CLI_PACKAGE, CLI_VERSION, bin_dir / "pulumi")


def go_build(module: Path, package: str, version: tuple[int, ...], target: Path) -> None:
    """Builds one command; the version is linked in, since the Automation API reads it."""
    flag = f"-X {SDK_MODULE}/go/common/version.Version=v{dotted(version)}"
    unfinished = target.with_suffix(".part")
    command = ["go", "build", "-trimpath", "-mod=readonly", "-ldflags", flag, "-o", str(unfinished), package]
    run_with_signs_of_life(command, module, target.name)
    unfinished.replace(target)


def run_with_signs_of_life(command: list[str], folder: Path, name: str) -> None:
    log = ROOT / f".cfrag/build/{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        while True:
            try:
                code = process.wait(timeout=30)
                break
            except subprocess.TimeoutExpired:
                say(f"  … still building {name} ({time.monotonic() - started:.0f} s)")
    if code:
        lines = log.read_text().strip().splitlines()
        raise SetupError(f"building {name} failed: {lines[-1] if lines else 'no output'} (all of it: {log})")


def copy_sdk_scripts(bin_dir: Path) -> None:
    """The two scripts that the language host starts come with the SDK's module, as files."""
    module = GO_MODULES / "cli"
    command = ["go", "mod", "download", "-json", SDK_MODULE]
    done = subprocess.run(command, cwd=module, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"fetching Go module {SDK_MODULE} failed: {done.stderr.strip()}")
    folder = Path(json.loads(done.stdout)["Dir"]) / "python"
    for script in SDK_SCRIPTS:
        target = bin_dir / Path(script).name
        shutil.copyfile(folder / script, target)
        target.chmod(0o755)


def ensure(bin_dir: Path, mode: str = "") -> str:
    """What will be used, in words. `mode` "build" neither looks on PATH nor downloads."""
    own = bin_dir / "pulumi"
    if own.exists() and usable(str(own)):
        return f"the Pulumi CLI in {bin_dir}"
    if mode != "build":
        if usable("pulumi"):
            return f"the Pulumi CLI on PATH ({shutil.which('pulumi')})"
        if download(bin_dir.parent) and usable(str(own)):
            return f"the official Pulumi CLI, downloaded to {bin_dir}"
    build(bin_dir)
    return f"the Pulumi CLI built in {bin_dir}"


def main() -> int:
    try:
        say(f"using {ensure(TOOLS / 'bin', os.environ.get('CFRAG_PULUMI', ''))}")
    except SetupError as error:
        print(f"cfrag: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
