"""Backups brought into services: of the same model with their vectors, of another one, and refused ones."""

import gzip
import hashlib
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cfrag.backup.fitting import faults
from tests.cfrag import backups
from tests.cfrag.backups import Gate, Services, cfrag, document, lines

pytestmark = pytest.mark.xdist_group("backups")

COUNT = 130
Edit = Callable[[list[dict[str, Any]]], object]


@pytest.fixture(scope="module")
def backup(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export with vectors of a service with at least `COUNT` documents."""
    backups.ingest(services.source, *(document(number) for number in range(COUNT)))
    file = tmp_path_factory.mktemp("backup") / "backup.jsonl"
    done = cfrag(services.source, "export", file, "--vectors")
    assert done.returncode == 0, done.stderr
    return file


def test_with_vectors_the_copy_is_the_same_and_no_model_is_asked(services: Services, backup: Path) -> None:
    copy, source = services.copy, services.source
    before = backups.ai_calls(copy)
    done = cfrag(copy, "import", backup, "--vectors", "--json")
    assert done.returncode == 0, done.stderr
    count = len(backups.held(source))
    counts = {"indexed": count, "skipped": 0, "overwritten": 0, "left": 0, "failed": [], "total": count}
    assert json.loads(done.stdout) == {**counts, "lackedByTheFile": []}
    assert backups.held(copy) == backups.held(source)
    assert backups.vectors(copy) == backups.vectors(source)
    again = cfrag(copy, "import", backup, "--vectors")
    assert f"{count} documents: 0 indexed, {count} skipped, 0 failed" in again.stdout
    # An ordinary ingest finds nothing to do either.
    plain = cfrag(copy, "import", backup)
    assert f"{count} documents: 0 indexed, {count} skipped, 0 failed" in plain.stdout
    assert backups.ai_calls(copy) == before


def test_another_model_embeds_them_and_takes_no_vectors(services: Services, backup: Path) -> None:
    other, count = services.other, len(backups.held(services.source))
    refused = cfrag(other, "import", backup, "--vectors")
    assert refused.returncode == 2
    assert (
        "model is @cf/baai/bge-small-en-v1.5 in the file and @cf/baai/bge-base-en-v1.5 there"
        in refused.stderr
    )
    assert "dims is 384 in the file and 768 there" in refused.stderr
    # All that is in the way, at once.
    assert f"field 'draft' is not declared there: {count} documents" in refused.stderr
    assert f"field 'words' is a number in the file and a string there: {count} documents" in refused.stderr
    assert "nothing was written" in refused.stderr
    assert backups.held(other) == {}

    fewer = ("import", backup, "--drop-field", "draft", "--drop-field", "words")
    with Gate(other) as gate:
        running = backups.started(other, *fewer, url=gate.url)
        gate.kill_before("/v1/ingest/batch", 2, running)
        running.communicate(timeout=120)
    assert running.returncode == -signal.SIGKILL
    calls = backups.ai_calls(other)
    done = cfrag(other, *fewer, "--yes")
    assert (
        f"{count} documents: {count - 100} indexed, 100 skipped, 0 failed; the target has {count}"
        in done.stdout
    )
    assert backups.ai_calls(other) == calls + 1, "only the rest was embedded"
    calls += 1
    asked = cfrag(other, *fewer)
    assert f"{count} documents of other will be overwritten where they differ in more than" in asked.stderr
    again = cfrag(other, *fewer, "--yes")
    assert f"0 indexed, {count} skipped" in again.stdout
    assert backups.ai_calls(other) == calls
    held = backups.held(other)
    for doc_id, each in backups.held(services.source).items():
        kept = {name: value for name, value in each["metadata"].items() if name not in ("draft", "words")}
        assert {**held[doc_id], "contentHash": None} == {**each, "metadata": kept, "contentHash": None}
    assert {len(each) for each in backups.vectors(other).values()} == {768}


def test_what_differs_in_the_target_is_overwritten_only_if_that_is_wanted(
    services: Services, backup: Path
) -> None:
    copy = services.copy
    assert cfrag(copy, "import", backup, "--vectors", "--yes").returncode == 0
    newer, extra = document(5, body="Newer than the backup."), document(0, id="not in the backup")
    switched = document(6, active=False)
    backups.ingest(copy, newer, switched, extra)
    backups.delete(copy, gone := document(8)["id"])

    asked = cfrag(copy, "import", backup)
    assert asked.returncode == 2
    assert "2 documents of docs with other content will be overwritten" in asked.stderr
    assert gone not in backups.held(copy)

    kept = cfrag(copy, "import", backup, "--vectors", "--skip-existing")
    count = len(backups.held(services.source))
    assert f"1 document: 1 indexed, 0 skipped, 0 failed; {count - 1} left alone" in kept.stdout
    assert backups.held(copy)[newer["id"]]["body"] == "Newer than the backup."

    done = cfrag(copy, "import", backup, "--vectors", "--yes")
    assert (
        f"2 indexed, {count - 2} skipped, 0 failed (2 overwritten); the target has {count + 1}" in done.stdout
    )
    held = backups.held(copy)
    assert held.pop(extra["id"])["body"] == extra["body"]
    assert held == backups.held(services.source)
    vectors = backups.vectors(copy)
    del vectors[extra["id"]]
    assert vectors == backups.vectors(services.source)


def cut(part: list[dict[str, Any]]) -> None:
    del part[-1]


def other_text(part: list[dict[str, Any]]) -> None:
    part[3]["body"] = "Somebody's own words."


def one_less(part: list[dict[str, Any]]) -> None:
    del part[3]


def later(part: list[dict[str, Any]]) -> None:
    part[0]["cfragExport"] = 2


def more(part: list[dict[str, Any]]) -> None:
    part.append(part[3])


def foreign(part: list[dict[str, Any]]) -> None:
    del part[0]


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (cut, "is cut off"),
        (one_less, "was changed after it was exported"),
        (other_text, "was changed after it was exported"),
        (more, "was changed after it was exported"),
        (later, "is of format 2"),
        (foreign, "is no export of cfrag"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_file_that_is_not_a_whole_export_is_refused(
    services: Services, backup: Path, tmp_path: Path, edit: Edit, complaint: str
) -> None:
    part, file = lines(backup), tmp_path / "edited.jsonl"
    edit(part)
    file.write_text(
        "".join(json.dumps(each, ensure_ascii=False, separators=(",", ":")) + "\n" for each in part)
    )
    done = cfrag(services.copy, "import", file, "--yes")
    assert (done.returncode, complaint in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    "name", ["cut.jsonl", "cut.jsonl.gz", "bent.jsonl.gz", "text.jsonl", "empty.jsonl", "none.jsonl"]
)
def test_bytes_that_are_no_backup_are_refused_in_one_line(
    services: Services, backup: Path, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    if name == "cut.jsonl.gz":
        file.write_bytes(gzip.compress(backup.read_bytes())[:-1000])
    elif name == "bent.jsonl.gz":
        packed = bytearray(gzip.compress(backup.read_bytes()))
        packed[len(packed) // 2 : len(packed) // 2 + 20] = bytes(20)
        file.write_bytes(packed)
    elif name == "cut.jsonl":
        file.write_bytes(backup.read_bytes()[:-10])
    elif name != "none.jsonl":
        file.write_bytes(b"\xff\xfe text" if name == "text.jsonl" else b"")
    done = cfrag(services.copy, "import", file)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert name in done.stderr


def sealed(part: list[dict[str, Any]]) -> bytes:
    """Lines as a file with an end that fits them."""
    lines = [json.dumps(each, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for each in part]
    end = part[-1] | {"documents": len(part) - 2, "sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest()}
    return b"".join(lines[:-1]) + json.dumps(end, separators=(",", ":")).encode() + b"\n"


def test_a_file_that_somebody_else_has_made_is_read_with_care(
    services: Services, backup: Path, tmp_path: Path
) -> None:
    file = tmp_path / "made.jsonl"
    file.write_bytes(sealed(lines(backup)))
    assert cfrag(services.copy, "import", file, "--vectors", "--yes").returncode == 0
    wrong: dict[str, Any] = {"tags": None, "metadata": [], "id": 7, "values": "none", "active": 1}
    for key, value in wrong.items():
        header, first, *rest = lines(backup)
        file.write_bytes(sealed([header, first | {key: value}, *rest]))
        done = cfrag(services.copy, "import", file, "--vectors", "--yes")
        assert (done.returncode, "line 2 is no document" in done.stderr) == (2, True), done.stderr
    header, *rest = lines(backup)
    file.write_bytes(sealed([{key: header[key] for key in header if key != "fields"}, *rest]))
    assert "its first line has no fields" in cfrag(services.copy, "import", file).stderr


TARGET: dict[str, Any] = {
    "maxTags": 1,
    "fields": {
        "kind": {"type": "string", "enum": ["a", "b"], "filterable": True},
        "flag": {"type": "boolean", "enum": None, "filterable": True},
        "count": {"type": "number", "enum": [1, 2], "filterable": True},
        "short": {"type": "string", "enum": None, "filterable": True},
    },
}


@pytest.mark.parametrize(
    ("tags", "metadata", "expected"),
    [
        (["a"], {"kind": "a", "flag": True, "count": 2, "short": "ä" * 32}, []),
        (["a", "b"], {}, ["has 2 tags, 1 are kept there (tags.maxPerDocument)"]),
        ([], {"kind": "c"}, ["field 'kind' has a value that is not declared there"]),
        ([], {"flag": 1}, ["field 'flag' is a number in the file and a boolean there"]),
        ([], {"count": True}, ["field 'count' is a boolean in the file and a number there"]),
        ([], {"count": 1.5}, ["field 'count' has a value that is not declared there"]),
        ([], {"short": "ä" * 33}, ["field 'short' is filterable there and has more than 64 bytes"]),
        ([], {"x": 1, "y": 2}, ["field 'x' is not declared there", "field 'y' is not declared there"]),
    ],
)
def test_a_document_fits_or_is_told_why_not(
    tags: list[str], metadata: dict[str, Any], expected: list[str]
) -> None:
    assert list(faults({"tags": tags, "metadata": metadata}, TARGET)) == expected
