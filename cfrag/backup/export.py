"""Reads every document of a service into a backup file, while the service goes on."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from cfrag.backup.file import Json, document_line
from cfrag.backup.listing import Listed, Source, State, list_all
from cfrag.backup.partial import Partial
from cfrag.errors import InputError

T = TypeVar("T")
# What a read of vectors takes at once, as a page of documents with content does (Vectorize, getByIds).
CHUNK = 20
_PAUSE_SECONDS = 5.0


@dataclass
class Export:
    """One run: `advance` is told of documents that were read, `wait` is in seconds, for those that can't be.

    Afterwards the file has every document of `listed` but the `unreadable` ones: each one's content is of a
    moment of the export, and not older than the list, unless it is among the `older`.
    """

    source: Source
    partial: Partial
    space: Json
    vectors: bool
    wait: float
    advance: Callable[[int], object]
    sleep: Callable[[float], None] = time.sleep
    unreadable: dict[str, str] = field(default_factory=dict)
    older: list[str] = field(default_factory=list)
    listed: Listed = field(default_factory=lambda: Listed({}, 0, 0, True))

    def run(self) -> None:
        """Raises InputError where the space of the vectors has changed meanwhile."""
        self._pages()
        self.listed = list_all(self.source)
        self._rest()
        if self.vectors:
            self._same_space()

    def _pages(self) -> None:
        """All documents by id, from where the file ends; what can't be read yet is left out."""
        after = self.partial.last
        self.advance(len(self.partial.held))
        while page := self.source.documents(after, content=True):
            self._keep(page)
            after = page[-1]["id"]

    def _rest(self) -> None:
        """What was passed over, came later or has changed: again and again until the time is up."""
        todo = [doc_id for doc_id in self.listed.states if self._lacks(doc_id)]
        deadline, pause = time.monotonic() + self.wait, 0.5
        while todo:
            for chunk in chunks(todo, CHUNK):
                self._keep(self._read(chunk))
            todo = [doc_id for doc_id in todo if doc_id in self.listed.states and self._lacks(doc_id)]
            left = deadline - time.monotonic()
            if not todo or left <= 0:
                break
            self.sleep(min(pause, left))
            pause = min(pause * 2, _PAUSE_SECONDS)
        self.older = [doc_id for doc_id in todo if doc_id in self.partial.held]
        self.unreadable = {
            doc_id: self.unreadable.get(doc_id, "its content can't be seen in the index")
            for doc_id in todo
            if doc_id not in self.partial.held
        }

    def _lacks(self, doc_id: str) -> bool:
        """Whether the file has not what the list says of a document."""
        held, state = self.partial.held.get(doc_id), self.listed.states[doc_id]
        if held is None:
            return True
        return state.hash is not None and (held.hash, held.active) != (state.hash, state.active)

    def _read(self, ids: Iterable[str]) -> Iterator[Json]:
        for doc_id in ids:
            document = self.source.document(doc_id)
            if document is None:
                # Deleted meanwhile.
                del self.listed.states[doc_id]
            else:
                if document["contentHash"] is not None:
                    self.listed.states[doc_id] = State(document["contentHash"], document["active"])
                yield document

    def _keep(self, documents: Iterable[Json]) -> None:
        """Write those documents down that can be read, with their vectors where these are wanted."""
        readable = {each["id"]: each for each in documents if each["state"] == "indexed"}
        values = self._values(readable) if self.vectors else dict.fromkeys(readable, None)
        new = sum(doc_id not in self.partial.held for doc_id in values)
        self.partial.add(document_line(readable[doc_id], value) for doc_id, value in values.items())
        self.advance(new)

    def _values(self, documents: dict[str, Json]) -> dict[str, list[float] | None]:
        """Vectors that were made from the very content that was read."""
        if not documents:
            return {}
        answer = self.source.vectors(list(documents))
        if any(answer[key] != self.space[key] for key in ("generation", "fingerprint")):
            # By an isolate that doesn't know of a change yet, or of one that this run doesn't know of.
            return {}
        found = {each["id"]: each for each in answer["vectors"]}
        self.unreadable |= {
            doc_id: "the index shows no vector of its content and the space's model"
            for doc_id in documents
            if doc_id not in found
        }
        return {
            doc_id: found[doc_id]["values"]
            for doc_id, document in documents.items()
            if doc_id in found and found[doc_id]["contentHash"] == document["contentHash"]
        }

    def _same_space(self) -> None:
        """A model that was changed meanwhile has made some of the vectors."""
        before, after = self.space, self.source.space()
        keys = ("generation", "fingerprint", "since")
        if differing := [f"{key} {before[key]} → {after[key]}" for key in keys if before[key] != after[key]]:
            raise InputError(
                f"the space has changed while its vectors were read ({', '.join(differing)}), so they "
                f"may be mixed: remove {self.partial.path} and export again"
            )


def chunks(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """The items in their order, at most so many at a time."""
    return (items[at : at + most] for at in range(0, len(items), most))
