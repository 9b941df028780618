"""What a service says of itself and of all its documents, before and after a backup."""

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from cfrag.backup.file import Json
from cfrag.client import Client
from cfrag.errors import InputError, Refused

# How often a list is made again where documents came or went while it was made.
_LISTS = 3


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


def read_space(client: Client) -> Json:
    """What documents and vectors are made of there. Raises InputError where there is no backup of it."""
    try:
        space = client.space()
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


def list_all(client: Client) -> Listed:
    """Every document's state, checked against the service's own count; made again where that moves."""
    for attempt in range(1, _LISTS + 1):
        before = _count(client)
        states = {each["id"]: State(each["contentHash"], each["active"]) for each in _states(client)}
        counted = _count(client)
        listed = Listed(states, len(states), counted, before == counted)
        if not listed.differs or attempt == _LISTS:
            return listed
    raise AssertionError("the last list is returned")


def _states(client: Client) -> Iterator[dict[str, Any]]:
    after = None
    while page := client.documents(after, content=False):
        yield from page
        after = page[-1]["id"]


def _count(client: Client) -> int:
    return int(client.stats()["documents"]["total"])
