"""Many stacks at once: in parallel, paced, canaries first, each failure for itself."""

import concurrent.futures
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cfrag.tenants.events import Progress
from cfrag.tenants.pace import Pacer, Stopped
from cfrag.tenants.report import Outcome, Status
from cfrag.tenants.workspace import StackFailed
from infra.errors import CfragError

ATTEMPTS = 4
PAUSE_SECONDS = 60.0
"""How long an account rests that said "too many calls" but not for how long."""


class View:
    """Told what happens; shows nothing by itself."""

    def started(self, tenant: str) -> None: ...

    def progress(self, tenant: str, words: str) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...


@dataclass(frozen=True)
class Task:
    """What to do for one tenant: within `calls` API calls of `account`, or StackFailed."""

    tenant: str
    account: str
    calls: int
    run: Callable[[Progress], Outcome]


@dataclass
class Fleet:
    """Runs tasks, `parallel` at a time. One pacer per account."""

    parallel: int
    view: View
    new_pacer: Callable[[], Pacer] = Pacer
    pacers: dict[str, Pacer] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def run(self, tasks: Sequence[Task], *, canaries: int = 0) -> list[Outcome]:
        """An outcome for every task, in order. Where a canary fails, the others are not started."""
        for task in tasks:
            self.pacers.setdefault(task.account, self.new_pacer())
        first, rest = tasks[:canaries], tasks[canaries:]
        outcomes = self._run(first)
        if all(outcome.well for outcome in outcomes.values()):
            outcomes |= self._run(rest)
        return [outcomes.get(task.tenant) or Outcome(task.tenant, "not started") for task in tasks]

    @property
    def waited(self) -> float:
        """Seconds that stacks waited for calls to become free."""
        return sum(pacer.waited for pacer in self.pacers.values())

    def stop(self) -> None:
        """Start nothing more; what runs is waited for."""
        self._stopping.set()
        for pacer in self.pacers.values():
            pacer.stop()

    def _run(self, tasks: Sequence[Task]) -> dict[str, Outcome]:
        if not tasks:
            return {}
        outcomes: dict[str, Outcome] = {}
        with concurrent.futures.ThreadPoolExecutor(self.parallel, "tenant") as pool:
            futures = [pool.submit(self._one, task) for task in tasks]
            try:
                for future in concurrent.futures.as_completed(futures):
                    outcomes[future.result().tenant] = future.result()
            except KeyboardInterrupt:
                # Ctrl-C reaches the running `pulumi`s too, which end in an orderly way.
                self.stop()
                outcomes |= {each.tenant: each for each in (future.result() for future in futures)}
        return outcomes

    def _one(self, task: Task) -> Outcome:
        outcome = self._attempts(task)
        self.view.ended(outcome)
        return outcome

    def _attempts(self, task: Task) -> Outcome:
        pacer, begun = self.pacers[task.account], time.monotonic()
        for attempt in range(1, ATTEMPTS + 1):
            started = time.monotonic()
            try:
                with pacer.reserved(task.calls) as share:
                    begun = started = time.monotonic()
                    self.view.started(task.tenant)
                    outcome = task.run(lambda words: self.view.progress(task.tenant, words))
                    share.settle(calls_for(outcome.changes))
                outcome.seconds = time.monotonic() - started
                return outcome
            except Stopped:
                return Outcome(task.tenant, "not started")
            except StackFailed as error:
                if not error.too_many_calls or attempt == ATTEMPTS or self._stopping.is_set():
                    return _failed(task, error, begun)
                # A stack that was stopped by the limit goes on where it was.
                pacer.pause(PAUSE_SECONDS if error.retry_after is None else error.retry_after)
                self.view.progress(task.tenant, "waits: the account's API calls are used up")
            except CfragError as error:
                return _failed(task, error, begun)
            except Exception as error:  # noqa: BLE001 - what is broken for one tenant stops no other
                return _failed(task, CfragError(f"{type(error).__name__}: {error}"), begun)
        raise AssertionError("the last attempt returns")


def _failed(task: Task, error: CfragError, begun: float) -> Outcome:
    return Outcome(task.tenant, "failed", time.monotonic() - begun, error=str(error))


def calls_for(changes: Mapping[str, int]) -> int:
    """API calls that these changes took, at most; measured: 2.9 per created resource, others fewer."""
    changed = sum(count for operation, count in changes.items() if operation != "same")
    return 5 + changed * 3


def status_of(changes: Mapping[str, int]) -> Status:
    """In a word, what an `up` did."""
    done = {operation for operation, count in changes.items() if count and operation != "same"}
    if not done:
        return "unchanged"
    return "created" if done == {"create"} and not changes.get("same") else "changed"
