"""The stack `local`: its config file, and the real Pulumi CLI run on it."""

import json
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from cfrag import output
from cfrag.errors import DemoFailed, Unreachable
from cfrag.file_backend import take_back, worked_on_by
from cfrag.pulumi_env import ROOT, STACK, TEMPLATE, config_file, pulumi_executable, secret_file
from infra.bundle.project import stack_config
from infra.config import RagConfig

_SECRETS = frozenset({"cf-rag:internalApiSecret", "cloudflare:apiToken"})


class LocalStack:
    """`home` keeps the state; `environment` is that of `pulumi_env.pulumi_env`.

    `patience` is how many seconds another `pulumi` is waited for.
    """

    def __init__(self, home: Path, environment: Mapping[str, str], *, patience: float = 300.0) -> None:
        self.patience = patience
        self.home = home.resolve()
        self.environment = dict(environment)
        self.config_path = config_file(self.home)
        self.environment["PULUMI_OPTION_CONFIG_FILE"] = str(self.config_path)

    @property
    def internal_secret(self) -> str:
        """The Worker's internal secret, random, kept in `home` for its owner only."""
        return secret_file(self.home / "internal-api-secret").read_text()

    def create(self) -> None:
        """Makes the stack where it is missing. Raises DemoFailed where its config file got lost."""
        if pulumi_executable(self.environment) is None:
            raise Unreachable("there is no Pulumi CLI on PATH and none in .cfrag/tools/bin; run: make setup")
        self.release()
        if not self._exists():
            self._init()
        elif not self.config_path.exists():
            raise DemoFailed(
                f"{self.config_path} is gone, but the stack that it belongs to is still in {self.home}; "
                f"put it back, or start anew: make stop, then remove pulumi and local there"
            )

    @property
    def worker_name(self) -> str:
        """The name that the Worker gets, from the config."""
        config = RagConfig.from_pulumi(stack_config(STACK, self.config_path.parent))
        return config.names(STACK).worker

    def configure(self, *, api_token: str, account_id: str, url: str) -> None:
        """Sets what only this machine knows, where it is not set already."""
        wanted = {
            "cf-rag:accountId": account_id,
            "cf-rag:url": url,
            "cf-rag:internalApiSecret": self.internal_secret,
            "cloudflare:apiToken": api_token,
        }
        known = json.loads(self.run("config", "--json", "--show-secrets"))
        for key, value in wanted.items():
            if known.get(key, {}).get("value") != value:
                secrecy = "--secret" if key in _SECRETS else "--plaintext"
                self.run("config", "set", key, secrecy, stdin=value)

    def up(self) -> None:
        """`pulumi up`, its own output shown. Raises DemoFailed where it fails."""
        self.release()
        command = ["pulumi", "up", "--yes", "--skip-preview", "--suppress-outputs", "--stack", STACK]
        done = subprocess.run(command, cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise DemoFailed(f"pulumi up failed with exit code {done.returncode}; what it said is above")

    def outputs(self) -> dict[str, Any]:
        outputs: dict[str, Any] = json.loads(self.run("stack", "output", "--json"))
        return outputs

    def run(self, *arguments: str, stdin: str | None = None, cwd: Path = ROOT) -> str:
        """What a `pulumi` command prints. Raises DemoFailed with what it says went wrong."""
        command = ["pulumi", *arguments, "--non-interactive", "--stack", STACK]
        done = subprocess.run(
            command,
            cwd=cwd,
            env=self.environment,
            input=stdin or "",
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise DemoFailed(f"pulumi {arguments[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def release(self) -> None:
        """Takes the stack back from a `pulumi` of this machine that was killed; one that runs keeps it.

        What it was just writing into the state is put back as it was before that.
        """
        self._wait_for_others()
        if take_back(self.home / "pulumi/state", STACK):
            self.run("cancel", "--yes")

    def _wait_for_others(self) -> None:
        """A `pulumi` whose caller was killed goes on for a while, and so may somebody else's."""
        deadline, told = time.monotonic() + self.patience, 0
        while pid := worked_on_by(self.home / "pulumi/state", STACK):
            if time.monotonic() > deadline:
                raise DemoFailed(f"process {pid} still works on the stack {STACK}: wait, or end it")
            if pid != told:
                output.say(f"process {pid} works on the stack {STACK}: waiting for its end ...")
            told = pid
            time.sleep(0.2)

    def _exists(self) -> bool:
        command = ["pulumi", "stack", "ls", "--json", "--non-interactive"]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise DemoFailed(f"pulumi stack ls failed: {done.stderr.strip()}")
        return any(stack["name"].split("/")[-1] == STACK for stack in json.loads(done.stdout))

    def _init(self) -> None:
        """`stack init` in a scratch project, since it writes the salt of the key into a config file there.

        A config file that is left of an older stack keeps a person's settings; only what is encrypted goes.
        """
        with tempfile.TemporaryDirectory(dir=self.home) as scratch:
            project = Path(scratch) / "Pulumi.yaml"
            name = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["name"]
            project.write_text(yaml.safe_dump({"name": name, "runtime": "python"}))
            environment = {
                key: value for key, value in self.environment.items() if key != "PULUMI_OPTION_CONFIG_FILE"
            }
            command = ["pulumi", "stack", "init", STACK, "--non-interactive"]
            done = subprocess.run(
                command, cwd=scratch, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise DemoFailed(f"pulumi stack init failed: {done.stderr.strip()}")
            salt = yaml.safe_load((Path(scratch) / f"Pulumi.{STACK}.yaml").read_text())["encryptionsalt"]
        source = self.config_path if self.config_path.exists() else TEMPLATE
        self.config_path.write_text(with_salt(source.read_text(), salt))


def with_salt(text: str, salt: str) -> str:
    """A stack's config under a new key: values that an old key encrypted are dropped, the rest is kept."""
    settings: dict[str, Any] = yaml.safe_load(text) or {}
    if "encryptionsalt" not in settings:
        return f"encryptionsalt: {salt}\n{text}"
    kept = {
        key: value
        for key, value in settings.get("config", {}).items()
        if not (isinstance(value, dict) and "secure" in value)
    }
    return str(yaml.safe_dump({"encryptionsalt": salt, "config": kept}, sort_keys=False))
