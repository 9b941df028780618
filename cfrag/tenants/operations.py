"""`plan`, `up` and `destroy` of many tenants: what each task is, and what is remembered of it."""

import hashlib
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from cfrag.errors import InputError
from cfrag.plugins import folder_digest
from cfrag.tenants.events import Progress
from cfrag.tenants.file import Tenant, Tenants, is_projects_own
from cfrag.tenants.fleet import Fleet, Task, status_of
from cfrag.tenants.journal import Entry, Journal
from cfrag.tenants.report import Outcome, Report
from cfrag.tenants.stacks import Stacks
from cfrag.tenants.workspace import NoStack, StackFailed
from infra.errors import CfragError

# API calls that one stack is given; bench/tenants.py counted 52 for a new one with five metadata indexes, at
# most 5 for a change, 3 for a preview, 8 for a destroy. Waiting for Vectorize takes a few more.
UP_CALLS = 80
PLAN_CALLS = 10
DESTROY_CALLS = 25
HEALTH_SECONDS = 60.0
_PROGRAM = ("infra", "worker_template", "migrations")

Run = Callable[[Progress], Outcome]


@dataclass
class Operations:
    """Everything that a command on the tenants of a file works with."""

    tenants: Tenants
    stacks: Stacks
    journal: Journal
    fleet: Fleet

    def plan(self, chosen: Sequence[Tenant]) -> Report:
        """What `up` would change. A tenant without a stack is looked at in a backend that is thrown away."""

        def planned(tenant: Tenant, scratch: Stacks) -> Run:
            def run(progress: Progress) -> Outcome:
                try:
                    changes = self.stacks.of(tenant.name, tenant.account).preview(tenant, progress)
                except NoStack:
                    new = scratch.of(tenant.name, tenant.account)
                    changes = new.preview(tenant, progress, create=True)
                return Outcome(tenant.name, "planned", changes=changes)

            return run

        # Where somebody else is at work just now, the settings are left as they are.
        with suppress(InputError), self.journal.held():
            self.stacks.drop_outdated()
        with _scratch(self.stacks) as scratch:
            return self.run(
                "plan",
                [Task(each.name, each.account.id, PLAN_CALLS, planned(each, scratch)) for each in chosen],
            )

    def up(
        self, chosen: Sequence[Tenant], *, canaries: int = 0, whole: bool = True, resume: bool = True
    ) -> Report:
        """Make the chosen stacks what the file says.

        `whole` where all of the file's tenants are meant: then a run that ended early is gone on with, and
        what it has done already is not done again unless `resume` is False.
        """
        wanted = self._wanted(chosen)
        checked = {tenant.name for tenant in chosen[:canaries]}
        tasks = [
            self.noted(
                "up", each.name, each.account.id, UP_CALLS, self._up(each, each.name in checked), wanted
            )
            for each in chosen
        ]
        return self.resumable("up", tasks, wanted, canaries=canaries, whole=whole, resume=resume)

    def resumable(
        self,
        operation: str,
        tasks: Sequence[Task],
        wanted: dict[str, str],
        *,
        whole: bool,
        canaries: int = 0,
        resume: bool = True,
    ) -> Report:
        """Run the tasks of an operation; see `up`. `wanted` is what each tenant is to become, as a digest."""
        with self._alone():
            before = self.journal.done_before(operation, wanted) if whole and resume else set()
            if whole:
                self.journal.begin(operation, anew=not before)
            first = len({task.tenant for task in tasks[:canaries]} - before)
            report = self.run(
                operation, [task for task in tasks if task.tenant not in before], canaries=first
            )
            outcomes = {name: Outcome(name, "done before", url=self.url(name)) for name in before}
            outcomes |= {outcome.tenant: outcome for outcome in report.outcomes}
            report.outcomes = [outcomes[task.tenant] for task in tasks]
            if whole:
                self.journal.finish(complete=report.well)
        return report

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else on this machine changes these stacks meanwhile; their settings are up to date."""
        with self.journal.held():
            self.stacks.drop_outdated()
            yield
            self.stacks.note_seen()

    def destroy(self, names: Sequence[str]) -> Report:
        """Remove the stacks of tenants, which may have left the file already."""
        known = {tenant.name: tenant for tenant in self.tenants.all}
        for name in names:
            if is_projects_own(name, self.stacks.root):
                raise InputError(f"{name} is a stack of the project, not a tenant: pulumi destroy -s {name}")
        somebody = self.tenants.all[0]
        with self._alone():
            tasks = [
                self.noted(
                    "destroy",
                    name,
                    known.get(name, somebody).account.id,
                    DESTROY_CALLS,
                    self._destroy(name, known.get(name, somebody)),
                )
                for name in names
            ]
            return self.run("destroy", tasks)

    def url(self, name: str) -> str | None:
        """The address of a tenant's Worker as its last `up` from here gave it."""
        entry = self.journal.entry(name)
        return entry.url if entry else None

    def _up(self, tenant: Tenant, checked: bool) -> Run:
        def run(progress: Progress) -> Outcome:
            changes, outputs = self.stacks.of(tenant.name, tenant.account).up(tenant, progress)
            url = outputs.get("url")
            if checked and url:
                progress("waiting for its /health")
                wait_healthy(url)
            return Outcome(tenant.name, status_of(changes), changes=changes, url=url)

        return run

    def _destroy(self, name: str, tenant: Tenant) -> Run:
        def run(progress: Progress) -> Outcome:
            try:
                changes = self.stacks.of(name, tenant.account).destroy(progress)
            except NoStack:
                return Outcome(name, "absent")
            except StackFailed as error:
                if "protect" not in str(error) and "allowDataLoss" not in str(error):
                    raise
                raise StackFailed(
                    "its data is protected: set `allowDataLoss: true` in its config, run "
                    f"`cfrag tenants up --only {name}`, then destroy it"
                ) from None
            return Outcome(name, "destroyed", changes=changes)

        return run

    def noted(
        self,
        operation: str,
        name: str,
        account: str,
        calls: int,
        run: Run,
        wanted: dict[str, str] | None = None,
    ) -> Task:
        """A task that the journal knows of from its start to its end."""
        digest = (wanted or {}).get(name, "")

        def noted(progress: Progress) -> Outcome:
            url = self.url(name)
            self.journal.note(name, Entry(operation, "running", digest, url=url))
            try:
                outcome = run(progress)
            except CfragError as error:
                self.journal.note(name, Entry(operation, "failed", digest, url=url, error=str(error)))
                raise
            gone = outcome.status in ("destroyed", "absent")
            self.journal.note(name, None if gone else Entry(operation, "done", digest, url=outcome.url))
            return outcome

        return Task(name, account, calls, noted)

    def run(self, operation: str, tasks: Sequence[Task], *, canaries: int = 0) -> Report:
        started = time.monotonic()
        outcomes = self.fleet.run(tasks, canaries=canaries)
        seconds = time.monotonic() - started
        return Report(operation, outcomes, seconds, len(self.stacks.renderings), self.fleet.waited)

    def _wanted(self, chosen: Sequence[Tenant]) -> dict[str, str]:
        """By tenant, a digest of all that decides what its stack becomes."""
        root = self.stacks.root
        program = [*(folder_digest(root / part) for part in _PROGRAM), (root / "__main__.py").read_text()]
        return {
            tenant.name: hashlib.sha256(
                "\0".join([tenant.config.model_dump_json(), tenant.account.id, *program]).encode()
            ).hexdigest()[:16]
            for tenant in chosen
        }


@contextmanager
def _scratch(stacks: Stacks) -> Iterator[Stacks]:
    """Stacks as good as new ones, which nobody ever sees."""
    with tempfile.TemporaryDirectory(prefix="cfrag-plan-") as folder:
        state = Path(folder) / "state"
        state.mkdir()
        environment = {
            "PULUMI_BACKEND_URL": state.as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": secrets.token_hex(16),
        }
        yield Stacks(Path(folder), root=stacks.root, environment=environment, renderings=stacks.renderings)


def wait_healthy(url: str, within: float = HEALTH_SECONDS) -> None:
    """Return once a Worker answers. Raises StackFailed after `within` seconds."""
    deadline, last = time.monotonic() + within, "it does not answer"
    while time.monotonic() < deadline:
        try:
            answer = httpx.get(f"{url}/health", timeout=within, trust_env=False)
            if answer.is_success:
                return
            last = f"it answers {answer.status_code}"
        except httpx.TransportError as error:
            last = str(error) or type(error).__name__
        time.sleep(0.5)
    raise StackFailed(f"deployed, but not healthy after {within:.0f} s: {url}/health: {last}")
