"""What is remembered of a run, and what the next one makes of it."""

import json
from pathlib import Path

import pytest

from cfrag.errors import InputError
from cfrag.tenants.journal import Entry, Journal

WANTED = {"acme": "1", "globex": "1", "initech": "1"}


def interrupted(path: Path) -> None:
    """A run that has done acme, failed globex, and was killed at initech."""
    journal = Journal(path)
    journal.begin("up", anew=True)
    journal.note("acme", Entry("up", "done", "1", url="https://acme.example"))
    journal.note("globex", Entry("up", "failed", "1", error="no"))
    journal.note("initech", Entry("up", "running", "1"))


def test_a_killed_run_is_gone_on_with(tmp_path: Path) -> None:
    interrupted(tmp_path / "j.json")
    journal = Journal(tmp_path / "j.json")
    assert journal.done_before("up", WANTED) == {"acme"}
    entry = journal.entry("acme")
    assert entry
    assert entry.url == "https://acme.example"


def test_a_tenant_that_is_wanted_otherwise_now_is_done_again(tmp_path: Path) -> None:
    interrupted(tmp_path / "j.json")
    assert Journal(tmp_path / "j.json").done_before("up", WANTED | {"acme": "2"}) == set()


def test_after_a_complete_run_everything_is_looked_at_again(tmp_path: Path) -> None:
    interrupted(tmp_path / "j.json")
    journal = Journal(tmp_path / "j.json")
    journal.finish(complete=True)
    assert journal.done_before("up", WANTED) == set()
    journal.begin("up", anew=True)
    # Killed again before anything was done: what the older run did counts no more.
    assert Journal(tmp_path / "j.json").done_before("up", WANTED) == set()


def test_another_operation_goes_on_with_nothing(tmp_path: Path) -> None:
    interrupted(tmp_path / "j.json")
    assert Journal(tmp_path / "j.json").done_before("destroy", WANTED) == set()


def test_two_processes_do_not_work_on_the_same_tenants(tmp_path: Path) -> None:
    first, second = Journal(tmp_path / "j.json"), Journal(tmp_path / "j.json")
    with first.held(), pytest.raises(InputError, match="another `cfrag tenants`"), second.held():
        pass
    with second.held():
        pass


def test_a_file_that_is_no_journal_is_named(tmp_path: Path) -> None:
    (tmp_path / "j.json").write_text("{")
    with pytest.raises(InputError, match=r"j\.json can't be read; remove it"):
        Journal(tmp_path / "j.json")


def test_the_file_is_whole_at_every_moment(tmp_path: Path) -> None:
    interrupted(tmp_path / "j.json")
    assert set(json.loads((tmp_path / "j.json").read_text())["entries"]) == set(WANTED)
    assert [path.name for path in tmp_path.iterdir()] == ["j.json"]
