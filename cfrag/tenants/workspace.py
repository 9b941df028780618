"""The Pulumi CLI as `cfrag tenants` uses it: many stacks of one project, from several threads."""

import json
import os
import re
import subprocess

from pulumi import automation

from cfrag.errors import Unreachable
from cfrag.pulumi_env import TOOLS
from infra.errors import CfragError

_TOO_MANY_CALLS = re.compile(r"HTTP 429|\b429\b|Rate limited|budget of 1,200")
_RETRY_AFTER = re.compile(r"Retry-After: (\d+)", re.IGNORECASE)


class StackFailed(CfragError):
    """Pulumi could not do it; the message is what the engine and the providers said."""

    @property
    def too_many_calls(self) -> bool:
        """Whether the account's budget of API calls was used up."""
        return bool(_TOO_MANY_CALLS.search(str(self)))

    @property
    def retry_after(self) -> float | None:
        found = _RETRY_AFTER.search(str(self))
        return float(found[1]) if found else None


class NoStack(CfragError):
    """The backend has no stack of this name."""


class Workspace(automation.LocalWorkspace):
    """A workspace that several threads share: no stack is the selected one."""

    def create_stack(self, stack_name: str) -> None:
        provider = ["--secrets-provider", self.secrets_provider] if self.secrets_provider else []
        self._run_pulumi_cmd_sync(["stack", "init", stack_name, "--no-select", *provider])

    def select_stack(self, stack_name: str) -> None:
        """Nothing: every command names its stack."""

    def stack_outputs(self, stack_name: str) -> automation.OutputMap:
        """The outputs, none of which is secret; in one call of the CLI instead of two."""
        said = self._run_pulumi_cmd_sync(["stack", "output", "--json", "--stack", stack_name]).stdout
        return {
            key: automation.OutputValue(value=value, secret=False) for key, value in json.loads(said).items()
        }

    def cli(self, *arguments: str, stdin: str = "") -> str:
        """What a command prints; for secrets, which the Automation API passes where others can see them.

        Raises NoStack or StackFailed.
        """
        done = subprocess.run(
            [self.pulumi_command.command, *arguments, "--non-interactive"],
            cwd=self.work_dir,
            env=os.environ | dict(self.env_vars),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return done.stdout
        said = done.stderr.strip()
        if "no stack named" in said:
            raise NoStack(said)
        raise StackFailed(said or f"pulumi {arguments[0]} failed")


def pulumi_command() -> automation.PulumiCommand:
    """The CLI on PATH, else the one that this project built. Raises Unreachable."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), str(TOOLS)])
    try:
        return automation.PulumiCommand()
    except FileNotFoundError:
        raise Unreachable(
            "there is no Pulumi CLI on PATH and none in .cfrag/tools/bin; run: make setup"
        ) from None
    except automation.InvalidVersionError as error:
        raise Unreachable(str(error)) from None


def last_line(error: Exception) -> str:
    """The reason in what the CLI printed, which a CommandError quotes in full."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if line.startswith("error:")] or lines[-1:]
    return reasons[-1].removeprefix("error:").strip()
