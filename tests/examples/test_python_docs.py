import json
import subprocess
import sys
from pathlib import Path
from pydoc_data.topics import topics

import yaml

from cfrag.demo_cmd import EXAMPLES
from cfrag.pulumi_env import ROOT, TEMPLATE
from examples.python_docs.chapters import CHAPTERS
from examples.python_docs.cut import MAX_CHARS, passages
from examples.python_docs.produce import documents
from infra.config import RagConfig

CORPUS = list(documents(topics))


def words(text: str) -> list[str]:
    return text.split()


def test_it_is_hundreds_of_documents_with_ids_of_their_own() -> None:
    ids = [document["id"] for document in CORPUS]
    assert 300 < len(ids) < 1000
    assert len(set(ids)) == len(ids)
    assert max(len(each.encode()) for each in ids) <= 64


def test_no_two_documents_have_the_same_text() -> None:
    bodies = [document["body"] for document in CORPUS]
    assert len(set(bodies)) == len(bodies)


def test_every_document_fits_an_embedding_model() -> None:
    assert all(0 < len(document["body"]) <= MAX_CHARS for document in CORPUS)


def test_cutting_loses_no_word_of_a_topic() -> None:
    """Headings and their underlines become titles; everything else is in the passages, in order."""
    topic = topics["string-methods"]
    kept = [word for passage in passages(topic) for word in words(passage.body)]
    text = words(topic.replace("String Methods\n**************", ""))
    assert kept == text


def test_a_method_is_a_document_of_its_own_named_after_it() -> None:
    (strip,) = (each for each in CORPUS if each["id"] == "string-methods/str-strip-1")
    assert strip["title"].startswith("String Methods - str.strip(")
    assert strip["tags"][0] == "method"


def test_a_block_that_is_too_long_is_cut_at_line_ends() -> None:
    lines = [f"line {number} " + "x" * 90 for number in range(60)]
    cut = [passage.body for passage in passages("\n".join(lines))]
    assert "\n".join(cut).splitlines() == lines
    assert all(len(body) <= MAX_CHARS for body in cut)


def test_documents_are_what_the_local_stack_declares() -> None:
    raw = yaml.safe_load(TEMPLATE.read_text())["config"]["cf-rag:rag"]
    config = RagConfig.from_pulumi(raw)
    assert config.metadata["chapter"].enum == CHAPTERS
    for document in CORPUS:
        assert document["metadata"].keys() == config.metadata.keys()
        assert document["metadata"]["chapter"] in CHAPTERS
        assert 1 <= len(document["tags"]) <= config.tags.max_per_document


def test_the_demo_looks_for_documents_that_exist() -> None:
    ids = [document["id"] for document in CORPUS]
    for example in EXAMPLES:
        assert any(each.startswith(example.first) for each in ids)


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    written = []
    for name in ("one", "two"):
        file = tmp_path / name
        command = [sys.executable, "-m", "examples.python_docs", str(file)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        written.append(file.read_bytes())
    assert written[0] == written[1]
    assert [json.loads(line)["id"] for line in written[0].splitlines()] == [each["id"] for each in CORPUS]
