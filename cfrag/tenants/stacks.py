"""One Pulumi stack per tenant, through the Automation API; the program is the project's own `__main__.py`."""

import hashlib
import json
import os
import re
import runpy
import secrets
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pulumi import automation

from cfrag.errors import InputError, Unreachable
from cfrag.local_stack import is_dead
from cfrag.pulumi_env import ROOT, TOOLS
from cfrag.tenants.events import Listener, Progress
from cfrag.tenants.file import ACCOUNT, TOKEN, Account, Tenant
from infra.bundle import Renderings
from infra.config import CONFIG_KEY
from infra.errors import CfragError

T = TypeVar("T")

SECRET = "cf-rag:internalApiSecret"
API_TOKEN = "cloudflare:apiToken"
ACCOUNT_ID = "cf-rag:accountId"
LOCK_SECONDS = 900.0
"""How long a living `pulumi` of this machine may go on with a stack that somebody else wants."""
_LOCKED_BY = re.compile(r"created by (\S+)@(\S+) \(pid (\d+)\)")
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


class _Workspace(automation.LocalWorkspace):
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


class Stacks:
    """The stacks of one backend. `folder` keeps their settings files; what is lost there is read from the
    backend's state again."""

    def __init__(
        self,
        folder: Path,
        *,
        root: Path = ROOT,
        secrets_provider: str | None = None,
        environment: Mapping[str, str] | None = None,
        renderings: Renderings | None = None,
    ) -> None:
        self.root = root
        self.renderings = Renderings() if renderings is None else renderings
        self._environment = dict(environment or {})
        self._secrets_provider = secrets_provider
        self.command = pulumi_command()
        self.folder = folder / _digest(self._backend())
        self._write_project()

    def of(self, name: str, account: Account | None) -> "TenantStack":
        """The stack of a tenant; without an account, one whose tenant is in the file no more."""
        return TenantStack(self, name, account)

    def existing(self) -> dict[str, automation.StackSummary]:
        """Every stack of the project in the backend."""
        workspace = self.workspace({})
        try:
            return {each.name.rpartition("/")[2]: each for each in workspace.list_stacks()}
        except automation.CommandError as error:
            raise Unreachable(f"the stacks can't be listed: {_last_line(error)}") from None

    def workspace(self, environment: Mapping[str, str], folder: Path | None = None) -> _Workspace:
        """A workspace on the project, or on another `folder` with one."""
        return _Workspace(
            work_dir=str(folder or self.folder),
            program=self._program,
            env_vars=self._environment | dict(environment),
            secrets_provider=self._secrets_provider,
            pulumi_command=self.command,
        )

    def environment(self) -> dict[str, str]:
        return os.environ | self._environment

    def _program(self) -> None:
        """What `pulumi up` would run, in this process: its imports are done once, and so is the rendering."""
        with self.renderings.shared():
            runpy.run_path(str(self.root / "__main__.py"), run_name="__main__")

    def _backend(self) -> str:
        try:
            return self.workspace({}, self.root).who_am_i().url or ""
        except automation.CommandError as error:
            raise Unreachable(f"Pulumi has no backend: {_last_line(error)}") from None

    def _write_project(self) -> None:
        """The project as it is, but with its settings files here and the way to it written down."""
        project = yaml.safe_load((self.root / "Pulumi.yaml").read_text())
        project["main"] = str(self.root)
        for plugin in project.get("plugins", {}).get("providers", []):
            plugin["path"] = str((self.root / plugin["path"]).resolve())
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f".Pulumi.yaml.{os.getpid()}"
        partial.write_text(yaml.safe_dump(project, sort_keys=False))
        partial.replace(self.folder / "Pulumi.yaml")


class TenantStack:
    """One tenant's stack; every method raises StackFailed, or NoStack where there has to be one."""

    def __init__(self, stacks: Stacks, name: str, account: Account | None) -> None:
        self.name = name
        self._stacks = stacks
        self._account = account
        self._settings = stacks.folder / f"Pulumi.{name}.yaml"
        self._workspace = stacks.workspace(self.credentials())

    def up(self, tenant: Tenant, progress: Progress) -> tuple[dict[str, int], dict[str, Any]]:
        """Makes or changes the stack; the counts of changes, and the outputs."""
        self._configure(tenant)
        listener = Listener(progress)
        try:
            done = self._run(
                lambda stack: stack.up(
                    on_event=listener, color="never", suppress_outputs=True, show_secrets=False
                ),
                listener,
                progress,
            )
        except NoStack:
            # Its settings were still here, but the stack itself was removed.
            self._settings.unlink(missing_ok=True)
            return self.up(tenant, progress)
        return listener.changes, {key: output.value for key, output in done.outputs.items()}

    def preview(self, tenant: Tenant, progress: Progress, *, create: bool = False) -> dict[str, int]:
        """What `up` would do; where the stack is missing it is made only if `create` says so."""
        self._configure(tenant, create=create)
        listener = Listener(progress)
        self._run(lambda stack: stack.preview(on_event=listener, color="never"), listener, progress)
        return listener.changes

    def destroy(self, progress: Progress) -> dict[str, int]:
        """Removes every resource, then the stack itself."""
        self._restore_settings()
        listener = Listener(progress)
        self._run(
            lambda stack: stack.destroy(on_event=listener, color="never", show_secrets=False),
            listener,
            progress,
        )
        self._run(lambda stack: stack.workspace.remove_stack(self.name), listener, progress)
        self._settings.unlink(missing_ok=True)
        self._token_mark.unlink(missing_ok=True)
        return listener.changes

    def outputs(self) -> dict[str, Any]:
        self._restore_settings()
        return self._run(lambda stack: {key: each.value for key, each in stack.outputs().items()})

    def secret(self) -> str:
        """The tenant's internal secret."""
        self._restore_settings()
        return self._run(lambda stack: stack.get_config(SECRET)).value

    def credentials(self) -> dict[str, str]:
        """The variables that name its account, and the token for it. Raises InputError."""
        if self._account is None:
            return {}
        token = self._stacks.environment().get(self._account.token_variable)
        if not token:
            raise InputError(
                f"{self._account.token_variable} is not set; it holds the token of {self._account.id}"
            )
        return {TOKEN: token, ACCOUNT: self._account.id}

    # settings: the config and, encrypted, the secrets

    def _configure(self, tenant: Tenant, *, create: bool = True) -> None:
        made = not self._settings.exists() and self._make_or_restore(create=create)
        settings = yaml.safe_load(self._settings.read_text()) or {}
        config = settings.setdefault("config", {})
        config |= {CONFIG_KEY: dict(tenant.raw), ACCOUNT_ID: tenant.account.id}
        _write_private(self._settings, yaml.safe_dump(settings, sort_keys=False))
        if SECRET not in config:
            # 32 random bytes, made once, handed over on a pipe: no disk and no process list sees them.
            kept = None if made else self._kept_secret()
            self._set_secret(SECRET, kept or secrets.token_hex(32))
        token = self._workspace.env_vars[TOKEN]
        if API_TOKEN not in config or not self._is_marked(token):
            self._set_secret(API_TOKEN, token)
            _write_private(self._token_mark, _digest(token))

    def _make_or_restore(self, *, create: bool) -> bool:
        """Whether the stack has been made just now."""
        if create:
            try:
                self._workspace.create_stack(self.name)
                return True
            except automation.StackAlreadyExistsError:
                pass
            except automation.CommandError as error:
                raise StackFailed(_last_line(error)) from None
        self._restore_settings()
        return False

    def _restore_settings(self) -> None:
        """The settings file of a stack that was made elsewhere: its state knows how to decrypt."""
        if self._settings.exists():
            return
        provider = self._exported(secrets_shown=False).get("secrets_providers") or {}
        kind, state = provider.get("type"), provider.get("state") or {}
        settings: dict[str, Any] = {}
        if kind == "passphrase":
            settings["encryptionsalt"] = state["salt"]
        elif kind == "cloud":
            settings |= {"secretsprovider": state["url"], "encryptedkey": state["encryptedkey"]}
        _write_private(self._settings, yaml.safe_dump(settings, sort_keys=False))
        if kept := self._kept_secret():
            self._set_secret(SECRET, kept)

    def _kept_secret(self) -> str | None:
        """The internal secret that the deployed Worker has, from the state."""
        for resource in self._exported(secrets_shown=True).get("resources", []):
            if resource["type"] == "cfrag:index:WorkerVersion":
                bound = _plain(resource["inputs"]["bindings"])
                kept: str | None = _plain(bound.get("INTERNAL_API_SECRET", {}).get("text"))
                return kept
        return None

    def _exported(self, *, secrets_shown: bool) -> dict[str, Any]:
        command = ["stack", "export", "--stack", self.name] + (["--show-secrets"] if secrets_shown else [])
        exported: dict[str, Any] = json.loads(self._cli(*command))["deployment"]
        return exported

    def _set_secret(self, key: str, value: str) -> None:
        self._cli("config", "set", "--secret", key, "--stack", self.name, stdin=value)

    def _cli(self, *arguments: str, stdin: str = "") -> str:
        """For what the Automation API can't do: it takes secrets as arguments only, which others can see."""
        done = subprocess.run(
            [self._stacks.command.command, *arguments, "--non-interactive"],
            cwd=self._stacks.folder,
            env=os.environ | dict(self._workspace.env_vars),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = done.stderr.strip()
            raise (
                NoStack(said)
                if "no stack named" in said
                else StackFailed(said or f"pulumi {arguments[0]} failed")
            )
        return done.stdout

    @property
    def _token_mark(self) -> Path:
        """A digest of the token that the settings hold encrypted, so that a new one is noticed."""
        return self._settings.with_suffix(".token")

    def _is_marked(self, token: str) -> bool:
        return self._token_mark.exists() and self._token_mark.read_text() == _digest(token)

    # running

    def _run(
        self,
        action: Callable[[automation.Stack], T],
        listener: Listener | None = None,
        progress: Progress = lambda _: None,
    ) -> T:
        stack = automation.Stack.select(self.name, self._workspace)
        give_up = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                return action(stack)
            except automation.StackNotFoundError:
                raise NoStack(f"there is no stack {self.name}") from None
            except automation.ConcurrentUpdateError as error:
                self._unlock(str(error), time.monotonic() > give_up, progress)
            except automation.CommandError as error:
                said = listener.errors if listener and listener.errors else [_last_line(error)]
                raise StackFailed("\n".join(self._redacted(line) for line in said)) from None

    def _unlock(self, said: str, late: bool, progress: Progress) -> None:
        """Take the stack back from a `pulumi` of this machine that was killed; wait for one that runs."""
        holders = _LOCKED_BY.findall(said)
        here = bool(holders) and all(host == socket.gethostname() for _, host, _ in holders)
        if here and all(is_dead(int(pid)) for _, _, pid in holders):
            self._cli("cancel", "--yes", "--stack", self.name)
        elif here and not late:
            progress(f"waiting for process {holders[0][2]}, which works on it")
            time.sleep(1)
        else:
            who = (
                ", ".join(f"{user}@{host} (process {pid})" for user, host, pid in holders) or "somebody else"
            )
            raise StackFailed(
                f"the stack is locked by {who}; where that one is gone for good: "
                f"pulumi cancel --stack {self.name} -C {self._stacks.folder}"
            )

    def _redacted(self, line: str) -> str:
        token = self._workspace.env_vars.get(TOKEN)
        return line.replace(token, "[token]") if token else line


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


def _plain(value: Any) -> Any:
    """A value of a state that was exported with its secrets shown."""
    return json.loads(value["plaintext"]) if isinstance(value, dict) and "plaintext" in value else value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _last_line(error: Exception) -> str:
    """The reason in what the CLI printed, which a CommandError quotes in full."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if line.startswith("error:")] or lines[-1:]
    return reasons[-1].removeprefix("error:").strip()


def _write_private(path: Path, text: str) -> None:
    partial = path.with_suffix(f".{os.getpid()}")
    partial.touch(mode=0o600)
    partial.write_text(text)
    partial.replace(path)
