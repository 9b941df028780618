"""Stacks start no faster than the account's call budget allows; the budget here is the local API's own."""

import heapq
import threading
from contextlib import AbstractContextManager
from typing import Any

import pytest

from cfrag.tenants.pace import CALLS, Pacer, Stopped
from local.api.guard import Budget


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("parallel", "seconds"), [(1, 5.0), (4, 20.0), (30, 280.0)])
def test_a_fleet_never_makes_a_call_too_many(parallel: int, seconds: float) -> None:
    """100 stacks, each spreading its calls over its time, against the local API's enforcement."""
    clock = Clock()
    budget, pacer = Budget(clock), Pacer(clock=clock)
    budget.enabled = True
    events: list[tuple[float, int, str]] = []
    running: dict[int, AbstractContextManager[Any]] = {}
    started = 0
    while started < 100 or events:
        if started < 100 and len(running) < parallel and pacer.delay(40) == 0:
            running[started] = share = pacer.reserved(40)
            share.__enter__()
            for call in range(40):
                heapq.heappush(events, (clock.now + seconds * call / 40, started, "call"))
            heapq.heappush(events, (clock.now + seconds, started, "end"))
            started += 1
        elif events:
            clock.now, stack, what = heapq.heappop(events)
            if what == "call":
                budget.spend()  # raises where the platform would refuse
            else:
                running.pop(stack).__exit__(None, None, None)
        else:
            clock.now += pacer.delay(40)
    assert budget.made == 4000
    assert budget.refused == 0
    # 4,000 calls at 1,080 per window can't take much less; and the pace isn't needlessly slow either.
    assert clock.now < (4000 / CALLS + 1) * (300 + seconds)


def test_the_budget_leaves_a_part_to_others() -> None:
    assert CALLS == 1080


def test_what_a_stack_did_not_use_is_free_again() -> None:
    pacer = Pacer(100, clock=Clock())
    with pacer.reserved(80) as share:
        assert pacer.delay(80) == float("inf")
        share.settle(10)
    assert pacer.delay(80) == 0


def test_a_stack_that_is_larger_than_the_budget_starts_alone() -> None:
    clock = Clock()
    pacer = Pacer(50, clock=clock)
    with pacer.reserved(60):
        assert pacer.delay(60) == float("inf")
    assert pacer.delay(60) == 300
    clock.now = 301
    assert pacer.delay(60) == 0


def test_a_pause_holds_everybody() -> None:
    clock = Clock()
    pacer = Pacer(clock=clock)
    pacer.pause(30)
    assert pacer.delay(1) == 30
    pacer.pause(10)  # a shorter one doesn't end a longer one
    assert pacer.delay(1) == 30


def test_who_waits_is_sent_away_by_a_stop() -> None:
    pacer = Pacer(10)
    refused = threading.Event()

    def wait() -> None:
        with pytest.raises(Stopped), pacer.reserved(10):
            pass
        refused.set()

    with pacer.reserved(10):
        thread = threading.Thread(target=wait)
        thread.start()
        pacer.stop()
        assert refused.wait(5)
        thread.join()
