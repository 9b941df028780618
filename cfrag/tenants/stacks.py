"""One Pulumi stack per tenant, through the Automation API; the program is the project's own `__main__.py`."""

import json
import os
import re
import runpy
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import unquote, urlsplit

import yaml
from pulumi import automation

from cfrag.errors import InputError, Unreachable
from cfrag.file_backend import is_dead, take_back
from cfrag.pulumi_env import ROOT
from cfrag.tenants.events import Listener, Progress
from cfrag.tenants.file import ACCOUNT, TOKEN, Account, Tenant
from cfrag.tenants.settings import SECRET, Settings, digest, write_private
from cfrag.tenants.workspace import NoStack, StackFailed, Workspace, last_line, pulumi_command
from infra.bundle import Renderings

T = TypeVar("T")
Step = Literal["begin", "finish", "leaked"]
UNDER_WAY = "a rotation is under way"

LOCK_SECONDS = 900.0
"""How long a living `pulumi` of this machine may go on with a stack that somebody else wants."""
_LOCKED_BY = re.compile(r"created by (\S+)@(\S+) \(pid (\d+)\)")


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
        self._command = pulumi_command()
        self.backend = self._backend()
        self.folder = folder / digest(self.backend)
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
            raise Unreachable(f"the stacks can't be listed: {last_line(error)}") from None

    def drop_outdated(self) -> None:
        """Drop the settings of stacks that have changed since `note_seen`: another machine may have given
        them other secrets, or a run that was killed; they are read from the state again."""
        seen = json.loads(self._seen.read_text()) if self._seen.exists() else {}
        for name, changed in self._changed().items():
            if seen.get(name) != changed:
                Settings(name, self.workspace({})).remove()

    def note_seen(self) -> None:
        """The settings in the folder are those of the stacks as they are now."""
        write_private(self._seen, json.dumps(self._changed()))

    def _changed(self) -> dict[str, str]:
        return {name: str(summary.last_update) for name, summary in self.existing().items()}

    @property
    def _seen(self) -> Path:
        return self.folder / "seen.json"

    def workspace(self, environment: Mapping[str, str], folder: Path | None = None) -> Workspace:
        """A workspace on the project, or on another `folder` with one."""
        return Workspace(
            work_dir=str(folder or self.folder),
            program=self._program,
            env_vars=self._environment | dict(environment),
            secrets_provider=self._secrets_provider,
            pulumi_command=self._command,
        )

    def mend(self, name: str) -> None:
        """Make a state whole whose writing a kill has cut short, where the backend is a folder."""
        if self.backend.startswith("file://"):
            take_back(Path(unquote(urlsplit(self.backend).path)), name)

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
            raise Unreachable(f"Pulumi has no backend: {last_line(error)}") from None

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
        stacks.mend(name)
        self._workspace = stacks.workspace(self.credentials())
        self._settings = Settings(name, self._workspace)

    def up(self, tenant: Tenant, progress: Progress) -> tuple[dict[str, int], dict[str, Any]]:
        """Makes or changes the stack; the counts of changes, and the outputs."""
        self._settings.configure(tenant)
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
            self._settings.remove()
            return self.up(tenant, progress)
        return listener.changes, {key: output.value for key, output in done.outputs.items()}

    def preview(self, tenant: Tenant, progress: Progress, *, create: bool = False) -> dict[str, int]:
        """What `up` would do; where the stack is missing it is made only if `create` says so."""
        self._settings.configure(tenant, create=create)
        listener = Listener(progress)
        self._run(lambda stack: stack.preview(on_event=listener, color="never"), listener, progress)
        return listener.changes

    def destroy(self, progress: Progress) -> dict[str, int]:
        """Removes every resource, then the stack itself."""
        self._settings.restore()
        listener = Listener(progress)
        self._run(
            lambda stack: stack.destroy(on_event=listener, color="never", show_secrets=False),
            listener,
            progress,
        )
        self._run(lambda stack: stack.workspace.remove_stack(self.name), listener, progress)
        self._settings.remove()
        return listener.changes

    def outputs(self) -> dict[str, Any]:
        self._settings.restore()
        return self._run(lambda stack: {key: each.value for key, each in stack.outputs().items()})

    def secret(self) -> str:
        """The internal secret that the tenant's Worker takes now; of two the newer one."""
        found = self._settings.deployed().get(SECRET)
        if found is None:
            raise StackFailed("it has no secret yet; run `cfrag tenants up`")
        return found

    def rotate(self, tenant: Tenant, step: Step, progress: Progress, *, resumed: bool) -> dict[str, int]:
        """A step of the rotation of its internal secret, and the `up` that makes the Worker know of it.

        `resumed` where a run of this very step ended early: what it has done to the secret is kept.
        """
        self._settings.configure(tenant, create=False)
        if step == "finish":
            self._settings.forget_previous()
        elif step == "leaked":
            self._settings.renew_secret(keep=False)
        elif not self._settings.rotates or (resumed and not self._settings.is_renewed):
            self._settings.renew_secret(keep=True)
        elif not resumed:
            raise StackFailed(f"{UNDER_WAY}: its secret of before is still taken; end that with --finish")
        changes, _ = self.up(tenant, progress)
        return changes

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
                said = listener.errors if listener and listener.errors else [last_line(error)]
                raise StackFailed("\n".join(self._redacted(line) for line in said)) from None

    def _unlock(self, said: str, late: bool, progress: Progress) -> None:
        """Take the stack back from a `pulumi` of this machine that was killed; wait for one that runs."""
        holders = _LOCKED_BY.findall(said)
        here = bool(holders) and all(host == socket.gethostname() for _, host, _ in holders)
        if here and all(is_dead(int(pid)) for _, _, pid in holders):
            self._workspace.cli("cancel", "--yes", "--stack", self.name)
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
