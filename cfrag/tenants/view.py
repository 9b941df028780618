"""Progress on standard error: a live table for people, plain lines for logs."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.live import Live
from rich.table import Table
from rich.text import Text

from cfrag import output
from cfrag.tenants.fleet import View
from cfrag.tenants.report import Outcome, Report

_STYLES = {"failed": "red", "not started": "yellow", "running": "cyan", "waiting": "dim"}


class Lines(View):
    """One line when a tenant starts, one when it ends."""

    def started(self, tenant: str) -> None:
        output.say(f"{tenant}: started")

    def ended(self, outcome: Outcome) -> None:
        output.say(f"{outcome.tenant}: {_summary(outcome)}")


def _summary(outcome: Outcome) -> str:
    words = outcome.status if outcome.status != "planned" or outcome.changes else "planned, no changes"
    parts = [words, outcome.shown_changes, f"{outcome.seconds:.1f} s" if outcome.seconds else ""]
    return ", ".join(part for part in parts if part)


@dataclass
class _Row:
    status: str = "waiting"
    words: str = ""
    started: float | None = None
    seconds: float = 0.0


class LiveTable(View):
    """A row per tenant; of a large fleet, those that run and those that failed."""

    def __init__(self, tenants: Sequence[str]) -> None:
        self._rows = {tenant: _Row() for tenant in tenants}
        self._lock = threading.Lock()

    def started(self, tenant: str) -> None:
        with self._lock:
            self._rows[tenant] = _Row("running", "starting", time.monotonic())

    def progress(self, tenant: str, words: str) -> None:
        with self._lock:
            self._rows[tenant].words = words

    def ended(self, outcome: Outcome) -> None:
        with self._lock:
            words = outcome.shown_changes or (outcome.error or "").partition("\n")[0]
            self._rows[outcome.tenant] = _Row(outcome.status, words, None, outcome.seconds)

    def __rich__(self) -> Table:
        table = Table("tenant", "status", "", "seconds", box=None, pad_edge=False, header_style="bold")
        table.columns[2].overflow, table.columns[2].no_wrap = "ellipsis", True
        with self._lock:
            for name, row in self._shown():
                seconds = time.monotonic() - row.started if row.started else row.seconds
                status = Text(row.status, style=_STYLES.get(row.status, "green"))
                table.add_row(name, status, Text(row.words), f"{seconds:.0f}" if seconds else "")
            table.caption = self._counts()
        return table

    def _shown(self) -> list[tuple[str, _Row]]:
        rows = list(self._rows.items())
        if len(rows) <= max(10, output.err.height - 4):
            return rows
        return [(name, row) for name, row in rows if row.status in ("running", "failed")]

    def _counts(self) -> str:
        counts: dict[str, int] = {}
        for row in self._rows.values():
            counts[row.status] = counts.get(row.status, 0) + 1
        return ", ".join(f"{count} {status}" for status, count in counts.items())


@contextmanager
def shown(tenants: Sequence[str]) -> Iterator[View]:
    """The table on a terminal, else lines."""
    if not output.err.is_terminal:
        yield Lines()
        return
    table = LiveTable(tenants)
    with Live(table, console=output.err, refresh_per_second=4):
        yield table


def show_report(report: Report) -> None:
    """The counts, then each failure in full."""
    for outcome in report.outcomes:
        if outcome.error:
            for line in outcome.error.splitlines():
                output.complain(f"{outcome.tenant}: {line}")
    counts = ", ".join(f"{count} {status}" for status, count in report.counts().items())
    output.say(f"{report.operation}: {counts}; {report.seconds:.0f} s")
