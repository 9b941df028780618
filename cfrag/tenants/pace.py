"""Keeps stamping within what an account may call: 1,200 API calls in any five minutes."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from infra.catalog import API_CALLS_PER_5_MIN

WINDOW_SECONDS = 300.0
# A tenth is left to people and to other tools with the same token.
CALLS = API_CALLS_PER_5_MIN.value * 9 // 10


class Stopped(Exception):
    """Nothing more is to be started."""


@dataclass
class Share:
    """Calls that one stack may make; counted until a window after its end."""

    calls: int
    ended: float | None = None

    def settle(self, calls: int) -> None:
        """It has turned out to be no more than `calls`."""
        self.calls = min(self.calls, calls)


class Pacer:
    """Decides when the next stack may start.

    A stack's calls are reserved from its start until five minutes after its end: any five minutes with a
    call of it in them end within that time, so no five minutes hold more calls than `calls`.
    """

    def __init__(
        self,
        calls: int = CALLS,
        *,
        clock: Callable[[], float] = time.monotonic,
        window: float = WINDOW_SECONDS,
    ) -> None:
        self.calls = calls
        self.waited = 0.0
        self._clock = clock
        self._window = window
        self._shares: list[Share] = []
        self._paused_until = 0.0
        self._changed = threading.Condition()
        self._stopped = False

    @contextmanager
    def reserved(self, calls: int) -> Iterator[Share]:
        """Waits until `calls` more fit in. Raises Stopped."""
        share = self._take(calls)
        try:
            yield share
        finally:
            with self._changed:
                share.ended = self._clock()
                self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Start nothing for a while: the account said that its budget is used up, by whomever."""
        with self._changed:
            self._paused_until = max(self._paused_until, self._clock() + seconds)

    def stop(self) -> None:
        """Whoever waits, and whoever comes, is sent away."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def delay(self, calls: int) -> float:
        """Seconds until `calls` fit in, if nothing else happens; infinite while only running stacks block."""
        now = self._clock()
        self._shares = [
            each for each in self._shares if each.ended is None or each.ended + self._window > now
        ]
        pause = max(0.0, self._paused_until - now)
        over = sum(each.calls for each in self._shares) + calls - max(self.calls, calls)
        if over <= 0:
            return pause
        for share in sorted(
            (each for each in self._shares if each.ended is not None), key=lambda s: s.ended or 0
        ):
            over -= share.calls
            if over <= 0:
                return max(pause, (share.ended or 0) + self._window - now)
        return float("inf")

    def _take(self, calls: int) -> Share:
        with self._changed:
            started = self._clock()
            while not self._stopped and (delay := self.delay(calls)) > 0:
                self._changed.wait(min(delay, 1.0))
            if self._stopped:
                raise Stopped
            self.waited += self._clock() - started
            share = Share(calls)
            self._shares.append(share)
            return share
