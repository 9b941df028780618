import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cfrag.main import main
from tests.cfrag.conftest import Answer, ScriptedService

Output = pytest.CaptureFixture[str]
PROBLEM = {"title": "A value is not acceptable", "detail": "the id is 65 bytes; at most 64"}


def write_corpus(folder: Path, count: int) -> Path:
    file = folder / "docs.jsonl"
    file.write_text("\n".join(json.dumps({"id": f"d{number}", "body": "text"}) for number in range(count)))
    return file


def results(status: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Any], Any]:
    def answer(body: Any) -> Any:
        return {"results": [{"id": document["id"]} | status(document) for document in body["documents"]]}

    return answer


def indexed(_: dict[str, Any]) -> dict[str, Any]:
    return {"status": "indexed"}


def test_250_documents_go_out_in_batches_of_at_most_100(
    as_user: ScriptedService, tmp_path: Path, capsys: Output
) -> None:
    as_user.answer(Answer(body=results(indexed)))
    assert main(["ingest", str(write_corpus(tmp_path, 250))]) == 0
    assert [len(call.body["documents"]) for call in as_user.calls] == [100, 100, 50]
    assert "250 documents: 250 indexed, 0 skipped, 0 failed" in capsys.readouterr().out


def test_documents_that_fail_are_listed_with_their_place_and_the_exit_code_is_1(
    as_user: ScriptedService, tmp_path: Path, capsys: Output
) -> None:
    def answer(document: dict[str, Any]) -> dict[str, Any]:
        return {"status": "failed", "problem": PROBLEM} if document["id"] == "d1" else {"status": "skipped"}

    as_user.answer(Answer(body=results(answer)))
    file = write_corpus(tmp_path, 3)
    assert main(["ingest", str(file)]) == 1
    streams = capsys.readouterr()
    assert "3 documents: 0 indexed, 2 skipped, 1 failed" in streams.out
    assert f"{file}:2 [d1]: A value is not acceptable: the id is 65 bytes" in streams.err


def test_one_reason_for_many_documents_does_not_fill_the_screen(
    as_user: ScriptedService, tmp_path: Path, capsys: Output
) -> None:
    as_user.answer(Answer(body=results(lambda _: {"status": "failed", "problem": PROBLEM})))
    assert main(["ingest", str(write_corpus(tmp_path, 40))]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("cfrag: ")]
    assert len(lines) == 6
    assert lines[-1] == "cfrag: ... and 35 more for the same reason (--json lists all)"


def test_ingest_as_json_prints_nothing_but_the_counts(
    as_user: ScriptedService, tmp_path: Path, capsys: Output
) -> None:
    as_user.answer(Answer(body=results(indexed)))
    file = write_corpus(tmp_path, 1)
    file.write_text(file.read_text() + "\nno json")
    assert main(["ingest", str(file), "--json"]) == 1
    counts = json.loads(capsys.readouterr().out)
    assert (counts["indexed"], counts["skipped"]) == (1, 0)
    assert counts["failed"][0]["source"] == f"{file}:2"


def test_one_id_in_two_files_fails_instead_of_overwriting(
    as_user: ScriptedService, tmp_path: Path, capsys: Output
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.md").write_text("---\nid: same\n---\ntext")
    as_user.answer(Answer(body=results(indexed)))
    assert main(["ingest", str(tmp_path)]) == 1
    assert f"its id is also that of {tmp_path / 'a.md'}" in capsys.readouterr().err


def test_force_asks_for_a_new_embedding(as_user: ScriptedService, tmp_path: Path) -> None:
    as_user.answer(Answer(body=results(indexed)))
    assert main(["ingest", str(write_corpus(tmp_path, 1)), "--force"]) == 0
    assert as_user.calls[0].body["documents"][0]["forceReindex"] is True


def test_search_sends_what_was_asked_for(as_user: ScriptedService) -> None:
    as_user.answer(Answer(body={"hits": []}))
    arguments = [
        "search",
        "needle",
        "-k",
        "3",
        "-t",
        "a",
        "-t",
        "b",
        "-w",
        "words<100",
        "--filter",
        '{"x": 1}',
    ]
    assert main(arguments) == 0
    assert as_user.calls[0].body == {
        "query": "needle",
        "topK": 3,
        "tags": ["a", "b"],
        "filter": {"words": {"$lt": 100}, "x": 1},
        "active": True,
    }


def test_hits_are_shown_as_they_are_written_square_brackets_too(
    as_user: ScriptedService, capsys: Output
) -> None:
    hit = {
        "id": "d1",
        "score": 0.91,
        "title": "A [bold]title",
        "body": "x[0] = [red]",
        "tags": ["t"],
        "active": True,
    }
    as_user.answer(Answer(body={"hits": [hit | {"metadata": {"words": 7}}]}))
    assert main(["search", "needle"]) == 0
    shown = capsys.readouterr().out
    for part in ("0.910", "d1", "A [bold]title", "x[0] = [red]", "words=7"):
        assert part in shown


def test_stats_are_shown_flat_and_as_json(as_user: ScriptedService, capsys: Output) -> None:
    stats = {"state": "ok", "documents": {"total": 7}, "progress": None}
    as_user.answer(Answer(body=stats))
    assert main(["stats"]) == 0
    shown = capsys.readouterr().out
    assert "documents.total" in shown
    assert "None" not in shown
    assert main(["stats", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == stats


@pytest.mark.parametrize("name", ["CFRAG_URL", "CFRAG_KEY"])
def test_a_missing_setting_is_named(
    as_user: ScriptedService, monkeypatch: pytest.MonkeyPatch, capsys: Output, name: str
) -> None:
    monkeypatch.delenv(name)
    assert main(["stats"]) == 2
    assert f"set {name}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Answer(401, {"title": "No valid credentials"}), 4),
        (Answer(500, {"title": "Internal error"}), 3),
        (Answer(200, b"<html>"), 3),
    ],
)
def test_exit_codes_tell_refused_from_unreachable(
    as_user: ScriptedService, capsys: Output, answer: Answer, code: int
) -> None:
    as_user.answer(answer)
    assert main(["stats"]) == code
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("cfrag: ")
    assert "Traceback" not in streams.err


@pytest.mark.parametrize(
    "arguments", [["search"], ["nonsense"], ["search", "x", "-k", "0"], ["render", "-s", "dev"]]
)
def test_a_wrong_command_line_is_exit_code_2(arguments: list[str], capsys: Output) -> None:
    assert main(arguments) == 2
    assert "Usage" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_named_without_a_traceback(capsys: Output, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert main(["render", "--stack", "dev", "--out", str(tmp_path / "file")]) == 2
    streams = capsys.readouterr()
    assert str(tmp_path / "file") in streams.err
    assert "Traceback" not in streams.err


def test_a_wrong_key_is_said_with_the_variable_that_holds_it(
    as_user: ScriptedService, capsys: Output
) -> None:
    as_user.answer(Answer(401, {"title": "No valid credentials"}))
    assert main(["stats"]) == 4
    assert "CFRAG_KEY must hold a key of this service" in capsys.readouterr().err


def test_an_export_into_a_folder_is_refused_before_anything_is_read(capsys: Output, tmp_path: Path) -> None:
    assert main(["export", str(tmp_path), "--force"]) == 2
    assert f"{tmp_path} is a folder" in capsys.readouterr().err


def test_an_unknown_stack_is_named_with_those_that_exist(capsys: Output, tmp_path: Path) -> None:
    assert main(["render", "--stack", "nope", "--out", str(tmp_path)]) == 2
    assert "there is no Pulumi.nope.yaml; known stacks: dev" in capsys.readouterr().err


def test_a_key_is_never_taken_from_the_command_line(as_user: ScriptedService) -> None:
    as_user.answer(Answer(body={"state": "ok"}))
    assert main(["stats", "--key", "secret"]) == 2
    assert as_user.calls == []
