"""What is embedded, and what a vector's metadata holds."""

import json
from typing import Any

import pytest

from infra.config import DOCUMENT_FORMAT_VERSION


def _bytes(metadata: dict[str, Any]) -> int:
    return len(json.dumps(metadata, ensure_ascii=False, separators=(",", ":")).encode())


def _filling(worker: Any, doc: Any, size: int) -> Any:
    """A document whose metadata without the formatted text has exactly `size` bytes."""
    empty = _bytes({"rawBody": "", "active": True, "contentHash": "h"})
    return doc("a", "é" * ((size - empty) // 2) + "x" * ((size - empty) % 2))


def test_the_format_is_the_one_that_the_fingerprint_counts(worker: Any) -> None:
    assert worker.document.FORMAT_VERSION == DOCUMENT_FORMAT_VERSION


def test_title_tags_and_text_fields_are_embedded_with_the_body(worker: Any, doc: Any) -> None:
    whole = doc("a", "Body.", title="T", tags=["b", "a"], metadata={"note": "n", "year": 1, "draft": True})
    assert worker.document.formatted(whole) == "# T\n\nTags: a, b\nnote: n\n\nBody."
    assert worker.document.formatted(doc("a", "Body.")) == "Body."


def test_metadata_names_every_part(worker: Any, doc: Any) -> None:
    whole = doc("a", "Body.", title="T", tags=["b", "a"], metadata={"year": 1})
    metadata = worker.document.vector_metadata(whole, "v1:h", False)
    content = worker.document.formatted(whole)
    assert metadata == {
        "rawBody": "Body.", "title": "T", "content": content, "tags": "a", "tags_1": "b",
        "active": False, "contentHash": "v1:h", "year": 1,
    }  # fmt: skip


def test_ten_kibibytes_fit_and_one_byte_more_is_refused_with_the_counts(worker: Any, doc: Any) -> None:
    metadata = worker.document.vector_metadata(_filling(worker, doc, 10_240), "h", True)
    assert _bytes(metadata) == 10_240
    assert "content" not in metadata
    with pytest.raises(worker.errors.Problem) as refused:
        worker.document.vector_metadata(_filling(worker, doc, 10_241), "h", True)
    assert (refused.value.status, refused.value.limit, refused.value.actual) == (413, 10_240, 10_241)
    assert "10241 bytes" in refused.value.detail


def test_only_the_formatted_text_is_left_out(worker: Any, doc: Any) -> None:
    large = doc("a", "x" * 6_000, title="T")
    metadata = worker.document.vector_metadata(large, "h", True)
    assert "content" not in metadata
    assert metadata["rawBody"] == large.body
    assert "content" in worker.document.vector_metadata(doc("a", "x" * 4_000), "h", True)


def test_a_stored_document_reads_back_as_it_was(worker: Any, doc: Any) -> None:
    whole = doc("a", "Body.\n# not a title", title="T", tags=["y", "x"], metadata={"year": 2024, "note": "n"})
    metadata = json.loads(json.dumps(worker.document.vector_metadata(whole, "v1:h", False)))
    back = worker.document.stored({**metadata, "year": 2024.0, "gone": 1.0})
    assert (back.title, back.body, back.tags, back.active) == ("T", whole.body, ["x", "y"], False)
    assert back.metadata == {"year": 2024, "note": "n", "gone": 1.0}
    assert isinstance(back.metadata["year"], int)


def test_tags_beyond_the_slots_of_today_are_kept(worker: Any) -> None:
    back = worker.document.stored({"rawBody": "b", "tags": "a", "tags_1": "b", "tags_2": "c"})
    again = worker.document.vector_metadata(back, "h", True)
    assert (again["tags"], again["tags_1"], again["tags_2"]) == ("a", "b", "c")
