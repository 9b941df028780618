"""Exports of a running service: killed, resumed, while documents come and go; and what can't be read."""

import gzip
import hashlib
import json
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cfrag import backups
from tests.cfrag.backups import Gate, Services, cfrag, document, lines

pytestmark = pytest.mark.xdist_group("backups")

COUNT = 130
LIST = "/v1/docs?content=true"


@pytest.fixture(scope="module")
def filled(services: Services) -> Services:
    backups.ingest(services.source, *(document(number) for number in range(COUNT)))
    return services


@pytest.fixture
def gate(filled: Services) -> Iterator[Gate]:
    with Gate(filled.source) as opened:
        yield opened


def contents(path: Path) -> dict[str, dict[str, Any]]:
    """The documents of a whole file, each once, with their vectors apart."""
    header, *documents, end = lines(path)
    assert header["cfragExport"] == end["cfragExportEnd"] == 1
    found = {each["id"]: each for each in documents}
    assert len(found) == len(documents) == end["documents"]
    return found


def test_killed_in_the_middle_it_goes_on_while_documents_come_and_go(
    filled: Services, gate: Gate, tmp_path: Path
) -> None:
    source, file = filled.source, tmp_path / "backup.jsonl"
    partial = tmp_path / "backup.jsonl.partial"
    running = backups.started(source, "export", file, "--vectors", url=gate.url)
    gate.kill_before(LIST, 4, running)
    _, complaint = running.communicate(timeout=120)
    assert running.returncode == -signal.SIGKILL, complaint
    assert not file.exists()
    assert len(lines(partial)) == 1 + 60
    # As if it had been killed within a line, and a disk had lost what was behind another.
    with partial.open("ab") as torn:
        torn.write(b"\0" * 100 + b"\n" + json.dumps(document(60)).encode()[:100])

    changed = [document(1, body="Rewritten behind the cursor."), document(110, body="Rewritten ahead of it.")]
    added = [document(0, id="a new one behind"), document(0, id="z, a new one ahead")]
    gone = [document(2)["id"], document(111)["id"]]

    def meanwhile() -> None:
        backups.ingest(source, *changed, *added)
        backups.delete(source, *gone)

    gate.before(LIST, 2, meanwhile)
    before = len(gate.seen)
    done = cfrag(source, "export", file, "--vectors", url=gate.url)
    assert done.returncode == 0, done.stderr
    assert "going on behind 60 documents" in done.stderr
    assert f"{COUNT} documents with vectors; the service counts {COUNT}" in done.stdout
    pages = [each for each in gate.seen[before:] if each.startswith(LIST)]
    assert len(pages) == 5, "what had been read was not read again"

    found, values = contents(file), backups.vectors(source)
    assert found.keys().isdisjoint(gone)
    assert found.keys() >= {each["id"] for each in added}
    assert {name: each.pop("values") for name, each in found.items()} == values
    written = {each["id"]: each for each in (*map(document, range(COUNT)), *changed, *added)}
    for doc_id in gone:
        del written[doc_id]
    assert {name: {**each, "contentHash": None} for name, each in found.items()} == {
        name: {**each, "tags": sorted(each["tags"]), "contentHash": None} for name, each in written.items()
    }
    assert {each["contentHash"] for each in found.values()} == {
        row["content_hash"] for row in source.rows("SELECT content_hash FROM documents")
    }
    assert not partial.exists()
    assert file.stat().st_mode & 0o777 == 0o600
    body, _, end = file.read_bytes().rstrip(b"\n").rpartition(b"\n")
    assert json.loads(end)["sha256"] == hashlib.sha256(body + b"\n").hexdigest()


def test_a_key_that_reads_is_enough_without_vectors_and_a_file_can_be_compressed(
    filled: Services, tmp_path: Path
) -> None:
    file, source = tmp_path / "backup.jsonl.gz", filled.source
    done = cfrag(source, "export", file, "--json", key=source.key("read"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["documents"] == len(backups.held(source))
    plain = tmp_path / "plain.jsonl"
    plain.write_bytes(gzip.decompress(file.read_bytes()))
    assert contents(plain) == backups.held(source)
    header = lines(plain)[0]
    assert (header["name"], header["model"], header["dims"], header["metric"], header["vectors"]) == (
        "docs",
        "@cf/baai/bge-small-en-v1.5",
        384,
        "cosine",
        False,
    )
    assert header["fields"]["chapter"]["enum"] == ["types", "syntax"]
    assert cfrag(source, "export", tmp_path / "x", "--vectors", key=source.key("read")).returncode != 0


def test_a_file_of_something_else_is_left_alone(filled: Services, tmp_path: Path) -> None:
    file, partial = tmp_path / "backup.jsonl", tmp_path / "backup.jsonl.partial"
    file.write_text("precious")
    done = cfrag(filled.source, "export", file)
    assert (done.returncode, file.read_text()) == (2, "precious")
    assert "--force" in done.stderr
    assert cfrag(filled.source, "export", file, "--force").returncode == 0
    header = lines(file)[0]
    for foreign in (header | {"service": "https://elsewhere"}, header | {"fingerprint": "m#1"}, {"id": "a"}):
        partial.write_text(json.dumps(foreign) + "\n")
        done = cfrag(filled.source, "export", file, "--force")
        assert done.returncode == 2
        assert "is of another export" in done.stderr
        assert json.loads(partial.read_text()) == foreign
    partial.write_text(json.dumps(header)[:50])
    assert cfrag(filled.source, "export", file, "--force").returncode == 0
    assert contents(file) == backups.held(filled.source)


def test_what_can_not_be_read_is_named_and_never_left_out_silently(filled: Services, tmp_path: Path) -> None:
    source, file = filled.source, tmp_path / "backup.jsonl"
    lost = document(77)["id"]
    older = tmp_path / "older.jsonl"
    assert cfrag(source, "export", older, "--vectors").returncode == 0
    answer = source.server.api(
        "POST", f"/vectorize/v2/indexes/{source.index}/delete_by_ids", json={"ids": [lost]}
    )
    assert answer.is_success
    done = cfrag(source, "export", file, "--wait", "1")
    assert done.returncode == 1
    assert f"{lost}: its content can't be seen in the index" in done.stderr
    assert "1 document can't be read; " in done.stderr
    assert not file.exists()

    done = cfrag(source, "export", file, "--wait", "0", "--allow-missing", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["unreadable"] == {lost: "its content can't be seen in the index"}
    assert lines(file)[-1]["unreadable"] == [lost]
    assert lost not in contents(file)

    # An older backup brings it back, and then only it is read.
    whole = tmp_path / "whole.jsonl"
    assert cfrag(source, "export", whole, "--wait", "0").returncode == 1
    assert f"{len(contents(older))} skipped" in cfrag(source, "import", older, "--vectors").stdout
    done = cfrag(source, "import", older, "--vectors", "--force")
    assert f"{len(contents(older))} indexed, 0 skipped, 0 failed" in done.stdout
    assert cfrag(source, "export", whole).returncode == 0
    assert contents(whole) == backups.held(source)


def test_a_full_disk_is_said_and_gone_on_from(filled: Services, tmp_path: Path) -> None:
    file = tmp_path / "backup.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        done = cfrag(filled.source, "export", file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.returncode == 2
    assert "can't write" in done.stderr
    assert "run the export again to go on" in done.stderr
    done = cfrag(filled.source, "export", file)
    assert "going on behind" in done.stderr
    assert contents(file) == backups.held(filled.source)


def test_two_exports_do_not_write_one_file(filled: Services, gate: Gate, tmp_path: Path) -> None:
    file = tmp_path / "backup.jsonl"
    second: list[tuple[int, str]] = []

    def meanwhile() -> None:
        running = backups.started(filled.source, "export", file, url=gate.url)
        _, complaint = running.communicate(timeout=60)
        second.append((running.returncode, complaint))

    gate.before(LIST, 2, meanwhile)
    first = cfrag(filled.source, "export", file, url=gate.url)
    assert first.returncode == 0, first.stderr
    assert second[0][0] == 2
    assert "another export is writing" in second[0][1]
