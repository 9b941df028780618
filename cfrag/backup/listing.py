"""What a service says of itself and of all its documents, before and after a backup."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol

from cfrag.backup.file import Json
from cfrag.errors import InputError, Refused

# How often a list is made again where documents came or went while it was made.
_LISTS = 3


class Source(Protocol):
    """Where documents are read from: the service itself (`cfrag.client.Client`), or what is behind it."""

    def space(self) -> Json: ...
    def stats(self) -> Json: ...
    def documents(self, after: str | None, *, content: bool) -> list[Json]: ...
    def document(self, doc_id: str) -> Json | None: ...
    def vectors(self, ids: Sequence[str]) -> Json: ...


@dataclass(frozen=True)
class State:
    """A document as the service lists it: the hash of its content, None where that is not known."""

    hash: str | None
    active: bool


@dataclass(frozen=True)
class Listed:
    """Every document of the service; `length` of them were listed and `counted` by the service.

    `steady` says that the count stood still meanwhile, so that these are the same.
    """

    states: dict[str, State]
    length: int
    counted: int
    steady: bool

    @property
    def differs(self) -> bool:
        return self.length != self.counted


def read_space(source: Source) -> Json:
    """What documents and vectors are made of there. Raises InputError where there is no backup of it."""
    try:
        space = source.space()
    except Refused as refused:
        if refused.status != HTTPStatus.NOT_FOUND:
            raise
        raise InputError(
            "the service knows no /v1/space: its Worker is older than this command (deploy it again), or it "
            "has no HTTP API (auth.mode: service)"
        ) from None
    if space["state"] == "dims_mismatch":
        raise InputError(
            f"the Worker of {space['name']} is not the one that belongs to its data (dims_mismatch): deploy "
            "that one first; cfrag stats says which"
        )
    return space


def list_all(source: Source) -> Listed:
    """Every document's state, checked against the service's own count; made again where that moves."""
    for attempt in range(1, _LISTS + 1):
        before = _count(source)
        states = {each["id"]: State(each["contentHash"], each["active"]) for each in _states(source)}
        counted = _count(source)
        listed = Listed(states, len(states), counted, before == counted)
        if not listed.differs or attempt == _LISTS:
            return listed
    raise AssertionError("the last list is returned")


def _states(source: Source) -> Iterator[dict[str, Any]]:
    after = None
    while page := source.documents(after, content=False):
        yield from page
        after = page[-1]["id"]


def _count(source: Source) -> int:
    return int(source.stats()["documents"]["total"])
