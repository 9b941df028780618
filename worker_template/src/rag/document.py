"""A document as it is embedded and as it is kept in the metadata of its vector."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rag.errors import too_large
from rag.jsonsafe import size
from rag.settings import FIELDS, METADATA_BYTES

# Raised when `formatted` changes: as part of the fingerprint it has everything embedded again.
FORMAT_VERSION = 1

_RESERVED = frozenset({"rawBody", "title", "content", "active", "contentHash"})
_TAG_SLOT = re.compile(r"tags(_\d+)?")


class Content(Protocol):
    """What a document says, wherever it comes from."""

    @property
    def title(self) -> str | None: ...
    @property
    def body(self) -> str: ...
    @property
    def tags(self) -> list[str]: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Stored:
    """A document read back from the metadata of its vector."""

    title: str | None
    body: str
    tags: list[str]
    metadata: dict[str, Any]
    active: bool
    content_hash: str | None


def formatted(document: Content) -> str:
    """The Markdown that is embedded: title, tags and textual fields carry meaning too."""
    head = [f"# {document.title}"] if document.title else []
    facts = [f"Tags: {', '.join(sorted(set(document.tags)))}"] if document.tags else []
    facts += [
        f"{name}: {value}" for name, value in sorted(document.metadata.items()) if isinstance(value, str)
    ]
    return "\n\n".join([*head, *(["\n".join(facts)] if facts else []), document.body])


def vector_metadata(document: Content, content_hash: str, active: bool) -> dict[str, Any]:
    """The metadata of the document's vector, at most 10 KiB of compact JSON.

    If that is too small for the raw and the formatted text, only the formatted one is left out: it can be
    made again. Raises Problem (413) if the raw text does not fit; nothing is ever cut off.
    """
    metadata: dict[str, Any] = {"rawBody": document.body}
    if document.title is not None:
        metadata["title"] = document.title
    # One tag per property: a filter on an array would compare the whole array.
    tags = sorted(set(document.tags))
    metadata.update({f"tags_{slot}" if slot else "tags": tag for slot, tag in enumerate(tags)})
    metadata.update(active=active, contentHash=content_hash)
    metadata.update(document.metadata)
    needed = size(metadata)
    if needed > METADATA_BYTES:
        raise _too_large(document, needed)
    whole = {**metadata, "content": formatted(document)}
    return whole if size(whole) <= METADATA_BYTES else metadata


def _too_large(document: Content, needed: int) -> Exception:
    body = len(document.body.encode())
    what = f"the document with its metadata (its body alone: {body} bytes; split it into several documents)"
    return too_large(what, field="body", limit=METADATA_BYTES, actual=needed)


def stored(metadata: Mapping[str, Any]) -> Stored:
    """The document in a vector's metadata, with all its fields, also ones that are no longer declared."""
    tags = sorted(
        (name for name in metadata if _TAG_SLOT.fullmatch(name)), key=lambda name: (len(name), name)
    )
    fields = {name: value for name, value in metadata.items() if name not in _RESERVED and name not in tags}
    return Stored(
        title=metadata.get("title"),
        body=str(metadata.get("rawBody", "")),
        tags=[str(metadata[name]) for name in tags],
        metadata={name: _number(name, value) for name, value in fields.items()},
        active=bool(metadata.get("active", True)),
        content_hash=metadata.get("contentHash"),
    )


def _number(name: str, value: Any) -> Any:
    """Numbers may come back as floats: an integral one was most likely written as an integer."""
    declared = FIELDS.get(name, {}).get("type") == "number"
    return int(value) if declared and isinstance(value, float) and value.is_integer() else value
