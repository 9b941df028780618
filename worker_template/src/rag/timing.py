"""Round trips of one request, by service: their number and their time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal

Service = Literal["d1", "ai", "vectorize", "queue"]

# What a service is called in the Server-Timing header.
_METRICS: dict[Service, str] = {"ai": "embed", "vectorize": "vectorize", "d1": "d1", "queue": "queue"}


@dataclass
class Timing:
    """Calls and milliseconds per service. Calls that run side by side are both counted in full."""

    calls: dict[Service, int] = field(default_factory=dict)
    ms: dict[Service, float] = field(default_factory=dict)

    def add(self, service: Service, ms: float) -> None:
        self.calls[service] = self.calls.get(service, 0) + 1
        self.ms[service] = self.ms.get(service, 0.0) + ms

    def header(self) -> str:
        """The value of `Server-Timing`: `embed;dur=12.3;desc="1 call", …`; embed, vectorize, d1 always."""
        shown = [service for service in _METRICS if service != "queue" or service in self.calls]
        return ", ".join(self._metric(service) for service in shown)

    def _metric(self, service: Service) -> str:
        count = self.calls.get(service, 0)
        noun = "call" if count == 1 else "calls"
        return f'{_METRICS[service]};dur={self.ms.get(service, 0.0):.1f};desc="{count} {noun}"'


_current: ContextVar[Timing | None] = ContextVar("timing", default=None)


def start() -> Timing:
    """Begin counting for this request; tasks that it starts count into the same object."""
    timing = Timing()
    _current.set(timing)
    return timing


def current() -> Timing | None:
    """The running request's counters, None outside of one."""
    return _current.get()


@asynccontextmanager
async def span(service: Service) -> AsyncIterator[None]:
    """Count the one call to `service` that is awaited inside, failed ones too."""
    timing = _current.get()
    began = perf_counter()
    try:
        yield
    finally:
        if timing is not None:
            timing.add(service, (perf_counter() - began) * 1000)
