import json
from pathlib import Path

import pytest

from cfrag.errors import InputError
from cfrag.sources import Item, find_files, read

FRONT = """---
title: A guide
tags: [one, two]
metadata: {author: Ann, day: 2024-05-01}
lang: en
---
# Heading

Text.
"""


def read_all(path: Path, *fields: str) -> list[Item]:
    return [item for file, base in find_files([path]) for item in read(file, base, fields)]


def test_front_matter_becomes_title_tags_and_metadata(tmp_path: Path) -> None:
    (tmp_path / "guide.md").write_text(FRONT)
    (item,) = read_all(tmp_path)
    assert item.document == {
        "id": "guide.md",
        "title": "A guide",
        "body": "# Heading\n\nText.",
        "tags": ["one", "two"],
        "metadata": {"author": "Ann", "day": "2024-05-01"},
    }


def test_other_front_matter_is_metadata_only_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "guide.md").write_text(FRONT)
    (item,) = read_all(tmp_path, "lang")
    assert item.document is not None
    assert item.document["metadata"]["lang"] == "en"


def test_ids_are_paths_within_the_folder_so_that_equal_names_stay_apart(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "index.md").write_text("# Title from the text\nx")
    documents = [item.document for item in read_all(tmp_path)]
    assert [document and document["id"] for document in documents] == ["a/index.md", "b/index.md"]
    assert [document["title"] for document in documents if document] == ["Title from the text"] * 2


def test_an_inactive_document_stays_inactive(tmp_path: Path) -> None:
    (tmp_path / "old.md").write_text("---\nactive: false\n---\ntext")
    (item,) = read_all(tmp_path)
    assert item.document
    assert item.document["active"] is False


def test_json_lines_are_documents_and_bad_lines_are_named(tmp_path: Path) -> None:
    lines = [json.dumps({"id": "one", "body": "text"}), "", "{broken", json.dumps({"body": "no id"})]
    file = tmp_path / "docs.jsonl"
    file.write_text("\n".join(lines))
    good, broken, nameless = read_all(file)
    assert good.document == {"id": "one", "body": "text"}
    assert broken.source == f"{file}:3"
    assert broken.problem is not None
    assert broken.problem.startswith("is no JSON")
    assert nameless.problem == 'is no document: an object with an "id" is needed'


def test_long_ids_are_folded_in_json_lines_too(tmp_path: Path) -> None:
    file = tmp_path / "docs.jsonl"
    file.write_text(json.dumps({"id": "é" * 40, "body": "text"}))
    (item,) = read_all(file)
    assert item.document
    assert len(item.document["id"].encode()) <= 64


def test_broken_front_matter_is_a_failure_of_that_file_only(tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_text("---\ntitle: [\n---\ntext")
    (tmp_path / "good.md").write_text("text")
    bad, good = read_all(tmp_path)
    assert bad.problem is not None
    assert "no YAML" in bad.problem
    assert good.document is not None


def test_a_file_that_is_no_utf8_is_a_failure_of_that_file(tmp_path: Path) -> None:
    (tmp_path / "latin.md").write_bytes("café".encode("latin-1"))
    (item,) = read_all(tmp_path)
    assert item.problem is not None
    assert item.problem.startswith("is no text in UTF-8 (byte 4)")


def test_a_missing_or_useless_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        find_files([tmp_path / "nothing"])
    (tmp_path / "picture.png").write_bytes(b"")
    with pytest.raises(InputError, match="holds nothing to ingest"):
        find_files([tmp_path])
