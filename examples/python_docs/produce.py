"""Documents out of `pydoc_data.topics`: ids, titles, tags and the two metadata fields."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypedDict

from examples.python_docs.chapters import chapter_of
from examples.python_docs.cut import Passage, passages

TAGS_PER_DOCUMENT = 2
_SLUG_CHARS = 32


class Metadata(TypedDict):
    chapter: str
    words: int


class Document(TypedDict):
    """A document as `POST /v1/ingest` takes it."""

    id: str
    title: str
    body: str
    tags: list[str]
    metadata: Metadata


def documents(topics: Mapping[str, str]) -> Iterator[Document]:
    """One document per passage that no other topic has already given, ids equal from run to run.

    Long topics repeat the short ones word for word ("compound" holds "if"), so short ones come first:
    the document is then named after the topic that is about it.
    """
    seen = set[bytes]()
    numbers = Counter[str]()
    for topic in sorted(topics, key=lambda name: (len(topics[name]), name)):
        subject = topics[topic].strip().partition("\n")[0].strip()
        for passage in passages(topics[topic]):
            digest = hashlib.sha256(passage.body.encode()).digest()
            if digest in seen or not passage.body:
                continue
            seen.add(digest)
            stem = f"{topic}/{slug(passage.entry or passage.heading)}"
            numbers[stem] += 1
            yield document(f"{stem}-{numbers[stem]}", topic, subject, passage)


def document(doc_id: str, topic: str, subject: str, passage: Passage) -> Document:
    parts = dict.fromkeys([subject, passage.heading, passage.entry])
    return {
        "id": doc_id,
        "title": " - ".join(part for part in parts if part),
        "body": passage.body,
        "tags": tags(passage)[:TAGS_PER_DOCUMENT],
        "metadata": {"chapter": chapter_of(topic), "words": len(passage.body.split())},
    }


def tags(passage: Passage) -> list[str]:
    """What kind of text it is, the most telling first; never empty."""
    found = {
        "method": passage.entry is not None,
        "grammar": "::=" in passage.body,
        "example": ">>> " in passage.body,
        "history": re.search(r"(Changed|New|Added|Deprecated) (in|since) version", passage.body) is not None,
    }
    return [tag for tag, holds in found.items() if holds] or ["prose"]


def slug(text: str) -> str:
    """Lower-case ASCII letters, digits and dashes, for use in an id."""
    name = text.partition("(")[0] if "(" in text else text
    return re.sub(r"[^a-z0-9_]+", "-", name.lower())[:_SLUG_CHARS].strip("-") or "text"
