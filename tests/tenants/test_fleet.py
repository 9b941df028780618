"""Many tasks at once: order, canaries, failures, and an account that says stop."""

import threading
import time
from collections.abc import Callable

from cfrag.tenants.events import Progress
from cfrag.tenants.fleet import Fleet, Task, View, status_of
from cfrag.tenants.pace import Pacer
from cfrag.tenants.report import Outcome, Report
from cfrag.tenants.workspace import StackFailed

LIMITED = "cannot write Queue: Rate limited. Please wait [10429] (HTTP 429)"


class Seen(View):
    def __init__(self) -> None:
        self.events: list[str] = []

    def started(self, tenant: str) -> None:
        self.events.append(f"{tenant} started")

    def ended(self, outcome: Outcome) -> None:
        self.events.append(f"{outcome.tenant} {outcome.status}")


def task(name: str, act: Callable[[], None] = lambda: None, account: str = "one") -> Task:
    def run(progress: Progress) -> Outcome:
        act()
        return Outcome(name, "created", changes={"create": 1})

    return Task(name, account, 10, run)


def failing(name: str, message: str = "no") -> Task:
    def act() -> None:
        raise StackFailed(message)

    return task(name, act)


def statuses(outcomes: list[Outcome]) -> dict[str, str]:
    return {outcome.tenant: outcome.status for outcome in outcomes}


def test_a_failure_stops_nobody_else_and_is_told() -> None:
    outcomes = Fleet(2, View()).run([task("a"), failing("b", "index taken"), task("c")])
    assert statuses(outcomes) == {"a": "created", "b": "failed", "c": "created"}
    assert outcomes[1].error == "index taken"
    assert not Report("up", outcomes, 1).well


def test_as_many_run_at_once_as_was_asked_for() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def act() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    Fleet(3, View()).run([task(str(number), act) for number in range(12)])
    assert most == 3


def test_the_rest_waits_for_the_canaries() -> None:
    seen = Seen()
    Fleet(4, seen).run([task("a"), task("b"), task("c"), task("d")], canaries=2)
    assert set(seen.events[:4]) == {"a started", "b started", "a created", "b created"}


def test_a_canary_that_fails_stops_the_rest() -> None:
    outcomes = Fleet(4, View()).run([task("a"), failing("b"), task("c"), task("d")], canaries=2)
    assert statuses(outcomes) == {"a": "created", "b": "failed", "c": "not started", "d": "not started"}
    assert not Report("up", outcomes, 1).well


def test_an_account_without_calls_rests_and_the_stack_goes_on() -> None:
    calls: list[float] = []

    def act() -> None:
        calls.append(time.monotonic())
        if len(calls) == 1:
            raise StackFailed(f"{LIMITED}. Retry-After: 1")

    outcomes = Fleet(1, View()).run([task("a", act)])
    assert statuses(outcomes) == {"a": "created"}
    assert calls[1] - calls[0] >= 1


def test_the_other_account_does_not_rest() -> None:
    fleet = Fleet(1, View())
    fleet.run([task("a", account="one")])
    fleet.pacers["one"].pause(3600)
    started = time.monotonic()
    fleet.run([task("b", account="two")])
    assert time.monotonic() - started < 60


def test_a_limit_that_stays_becomes_a_failure() -> None:
    outcomes = Fleet(1, View()).run([failing("a", f"{LIMITED}. Retry-After: 0")])
    assert statuses(outcomes) == {"a": "failed"}


def test_after_a_stop_nothing_starts() -> None:
    fleet = Fleet(1, View(), lambda: Pacer(1000))
    outcomes = fleet.run([task("a", fleet.stop), task("b")])
    assert statuses(outcomes) == {"a": "created", "b": "not started"}


def test_a_run_in_a_word() -> None:
    assert status_of({"create": 19}) == "created"
    assert status_of({"same": 19}) == "unchanged"
    assert status_of({"same": 17, "create": 2}) == "changed"
    assert status_of({"same": 16, "replace": 2, "update": 1}) == "changed"


def test_a_bug_that_one_tenant_meets_is_its_failure() -> None:
    def act() -> None:
        raise KeyError("bindings")

    outcomes = Fleet(1, View()).run([task("a", act), task("b")])
    assert statuses(outcomes) == {"a": "failed", "b": "created"}
    assert outcomes[0].error == "KeyError: 'bindings'"
