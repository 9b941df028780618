"""What a person sees while it goes on, and afterwards."""

import io

import pytest
from rich.console import Console

from cfrag import output
from cfrag.tenants.report import Outcome, Report
from cfrag.tenants.view import Lines, LiveTable, show_report, shown


@pytest.fixture
def err(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Standard error, as it is in a log."""
    written = io.StringIO()
    monkeypatch.setattr(output, "err", Console(file=written, width=120))
    return written


def drawn(table: LiveTable, height: int = 30) -> str:
    console = Console(file=io.StringIO(), width=100, height=height, record=True)
    console.print(table)
    return console.export_text()


def test_the_table_shows_who_runs_who_waits_and_who_failed() -> None:
    table = LiveTable(["acme", "globex", "initech"])
    table.started("acme")
    table.progress("acme", "3 done, create worker")
    table.ended(Outcome("globex", "failed", 4.0, error="index taken\nmore"))
    text = drawn(table)
    assert "3 done, create worker" in text
    assert "index taken" in text
    assert "more" not in text
    assert "1 running, 1 failed, 1 waiting" in text


def test_of_a_large_fleet_only_those_that_run_or_failed_are_shown(err: io.StringIO) -> None:
    table = LiveTable([f"t{number:03}" for number in range(300)])
    table.started("t007")
    table.ended(Outcome("t008", "failed", error="no"))
    table.ended(Outcome("t009", "created"))
    text = drawn(table)
    assert "t007" in text
    assert "t008" in text
    assert "t009" not in text
    assert "297 waiting" in text


def test_a_log_gets_lines(err: io.StringIO) -> None:
    with shown(["acme"]) as view:
        assert isinstance(view, Lines)
        view.started("acme")
        view.ended(Outcome("acme", "changed", 2.5, {"same": 18, "update": 1}))
    assert err.getvalue().splitlines() == ["acme: started", "acme: changed, 1 update, 2.5 s"]


def test_the_report_ends_with_the_failures_in_full_and_the_counts(err: io.StringIO) -> None:
    outcomes = [Outcome("acme", "created"), Outcome("globex", "failed", error="one [reason]\nanother")]
    show_report(Report("up", outcomes, 12.3))
    assert err.getvalue().splitlines() == [
        "cfrag: globex: one [reason]",
        "cfrag: globex: another",
        "up: 1 created, 1 failed; 12 s",
    ]


def test_the_json_report_says_it_all() -> None:
    outcomes = [Outcome("acme", "created", 3.21, {"create": 19}, "https://acme.example")]
    assert Report("up", outcomes, 4.56, 1, 0.04).to_json() == {
        "operation": "up",
        "ok": True,
        "seconds": 4.6,
        "rendered": 1,
        "waitedForBudgetSeconds": 0.0,
        "counts": {"created": 1},
        "tenants": [
            {
                "tenant": "acme",
                "status": "created",
                "seconds": 3.2,
                "changes": {"create": 19},
                "url": "https://acme.example",
                "error": None,
            }
        ],
    }
