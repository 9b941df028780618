"""The Pulumi CLI on any stack of this project, in the environment that the stack needs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cfrag import local_process
from cfrag.errors import InputError, Unreachable
from cfrag.pulumi_env import ROOT, STACK, TOOLS, config_file, pulumi_env, pulumi_executable
from infra.bundle import store

Done = subprocess.CompletedProcess[str]


class PulumiStack:
    """One stack. `local` has a state and a passphrase of its own, unless a backend is named already."""

    def __init__(self, name: str) -> None:
        self.name = name
        own = name == STACK and "PULUMI_BACKEND_URL" not in os.environ
        self.environment = _local_environment() if own else _environment()
        self.config_path = _config_path(name, own)
        if own:
            self.environment["PULUMI_OPTION_CONFIG_FILE"] = str(self.config_path)

    @property
    def folder(self) -> Path:
        """Where the stack's settings file is."""
        return self.config_path.parent

    def run(self, *arguments: str, stack: bool = True) -> Done:
        """Run `pulumi`; how it ended is the caller's business. Raises Unreachable where there is none."""
        if pulumi_executable(self.environment) is None:
            raise Unreachable("there is no Pulumi CLI on PATH and none in .cfrag/tools/bin; run: make setup")
        of_stack = ["--stack", self.name] if stack else []
        return subprocess.run(
            ["pulumi", *arguments, "--non-interactive", *of_stack],
            cwd=ROOT,
            env=self.environment,
            input="",
            capture_output=True,
            text=True,
            check=False,
        )

    def read(self, *arguments: str) -> Any:
        """The JSON that a command prints. Raises InputError with what it said instead."""
        done = self.run(*arguments)
        if done.returncode:
            raise InputError(f"pulumi {arguments[0]} failed: {last_words(done)}")
        return json.loads(done.stdout)


def last_words(done: Done) -> str:
    """Why a command failed, in one line."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return " ".join(line.strip() for line in lines if line.strip()).removeprefix("error: ")


def _environment() -> dict[str, str]:
    path = [str(Path(sys.executable).parent), os.environ.get("PATH", ""), str(TOOLS)]
    quiet = {"PULUMI_SKIP_UPDATE_CHECK": "true", "PULUMI_PYTHON_CMD": sys.executable}
    return quiet | os.environ | {"PATH": os.pathsep.join(path)}


def _local_environment() -> dict[str, str]:
    running = local_process.find(store.home())
    return pulumi_env(store.home(), running.api if running else None)


def _config_path(name: str, own: bool) -> Path:
    if own:
        return config_file(store.home())
    chosen = Path(os.environ.get("PULUMI_OPTION_CONFIG_FILE", ""))
    return chosen if chosen.name == f"Pulumi.{name}.yaml" else ROOT / f"Pulumi.{name}.yaml"
