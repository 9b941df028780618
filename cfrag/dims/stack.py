"""A stack whose embedding space is replaced: its settings file and the real Pulumi CLI run on it."""

import copy
import json
import os
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from cfrag import local_process
from cfrag.errors import InputError, Unreachable
from cfrag.local_stack import LocalStack
from cfrag.pulumi_env import ROOT, STACK, pulumi_env, pulumi_executable
from infra.bundle import store
from infra.bundle.project import stack_config
from infra.catalog import EMBEDDING_MODELS
from infra.config import CONFIG_KEY, RagConfig
from infra.errors import CfragError


class UpFailed(CfragError):
    """`pulumi up` ended with an error, which it has shown."""


class Change(NamedTuple):
    """What a step writes into the settings: keys below `cf-rag:rag` with their values, and keys to remove."""

    set: Mapping[str, str]
    remove: tuple[str, ...] = ()


class Stack:
    """One stack of this project. `local` is on the Cloudflare of this machine, which has to run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.environment = dict(os.environ)
        self._local: LocalStack | None = None
        folder = ROOT
        if name == STACK:
            home = store.home()
            self._local = LocalStack(home, pulumi_env(home, local_process.need(home).api))
            self.environment, folder = self._local.environment, self._local.config_path.parent
            # For the API calls of this process too.
            os.environ.update(
                {key: self.environment[key] for key in self.environment if key[:10] == "CLOUDFLARE"}
            )
        self.folder: Path = folder
        if pulumi_executable(self.environment) is None:
            raise Unreachable("there is no Pulumi CLI on PATH and none in .cfrag/tools/bin; run: make setup")

    @property
    def raw(self) -> dict[str, Any]:
        return stack_config(self.name, self.folder)

    @property
    def config(self) -> RagConfig:
        return RagConfig.from_pulumi(self.raw)

    @cached_property
    def outputs(self) -> dict[str, Any]:
        outputs: dict[str, Any] = json.loads(self._pulumi("stack", "output", "--json"))
        return outputs

    @property
    def secret(self) -> str | None:
        """The Worker's internal secret, where this machine knows it."""
        return self._local.internal_secret if self._local else None

    def write(self, change: Change) -> None:
        """Edit the settings file with the Pulumi CLI, which keeps everything else of it, comments too."""
        RagConfig.from_pulumi(apply(self.raw, change))
        for key in change.remove:
            self._pulumi("config", "rm", "--path", f"{CONFIG_KEY}.{key}")
        pairs = [
            part
            for key, value in change.set.items()
            for part in ("--plaintext", f"{CONFIG_KEY}.{key}={value}")
        ]
        if pairs:
            self._pulumi("config", "set-all", "--path", *pairs)

    def up(self) -> None:
        """`pulumi up`, its own output shown. Raises UpFailed; Ctrl-C ends it after what it is doing."""
        if self._local:
            self._local.release()
        command = ["pulumi", "up", "--yes", "--skip-preview", "--suppress-outputs", "--stack", self.name]
        with subprocess.Popen(command, cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL) as process:
            code = process.wait()
        if code:
            raise UpFailed(f"pulumi up failed with exit code {code}; what it said is above")

    def _pulumi(self, *arguments: str) -> str:
        command = ["pulumi", *arguments, "--non-interactive", "--stack", self.name]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, input="", capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise InputError(f"pulumi {arguments[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout


def project() -> str:
    """The Pulumi project's name, which is part of what owns an index."""
    return str(yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["name"])


def apply(raw: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """The settings below `cf-rag:rag` as the Pulumi CLI leaves them."""
    changed: dict[str, Any] = copy.deepcopy(dict(raw))
    for path, value in change.set.items():
        *parents, last = path.split(".")
        target = changed
        for key in parents:
            target = target.setdefault(key, {})
        target[last] = int(value) if value.isdigit() else value
    for key in change.remove:
        changed.pop(key, None)
    return changed


def start_change(config: RagConfig, model: str, metric: str | None, strategy: str) -> Change:
    """The settings that start a replacement. Raises ConfigError or InputError where they can't be."""
    if model not in EMBEDDING_MODELS:
        raise InputError(f'"{model}" is not in the catalog; there are: {", ".join(EMBEDDING_MODELS)}')
    old = config.embedding
    if (model, metric or old.metric) == (old.model, old.metric):
        raise InputError(f"the stack is on {model} with {old.metric} already")
    wanted = {
        "embedding.model": model,
        "embedding.generation": str(old.generation + 1),
        "replacing.generation": str(old.generation),
        "replacing.model": old.model,
        "replacing.strategy": strategy,
    }
    if metric and metric != old.metric:
        wanted |= {"embedding.metric": metric, "replacing.metric": old.metric}
    return Change(wanted)


def abort_change(config: RagConfig) -> Change:
    """The settings that go back to the space that is being replaced."""
    old = config.replacing
    assert old is not None
    wanted = {"embedding.model": old.model, "embedding.generation": str(old.generation)}
    if old.metric:
        wanted["embedding.metric"] = old.metric
    return Change(wanted, ("replacing",))


FINISH = Change({}, ("replacing",))
