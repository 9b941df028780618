"""Vector spaces as `meta` describes them: the one that answers searches, and the other of a replacement."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from rag.bindings import Vars
from rag.document import FORMAT_VERSION
from rag.jsonsafe import compact
from rag.models import Model
from rag.settings import METRIC

Side = Literal["main", "next"]

# In place of a space's id: nothing is kept in these columns.
UNUSED = "-"
_KEY = "space"


@dataclass(frozen=True)
class Space:
    """One vector space: what its vectors are made with, and in which columns of D1 its state is kept.

    `id` tells it from every other one that the stack had: "" for the first, then its generation and the time
    (ms) at which it `began`; `since` is the time from which on all that is written is of `model`.
    """

    generation: int
    model: Model
    fingerprint: str
    format: int
    metric: str
    side: Side = "main"
    id: str = ""
    reindexing: bool = False
    since: int = 0
    began: int = 0

    @property
    def mark(self) -> str:
        """What a row carries for a vector of this space and model."""
        return self.fingerprint + self.id

    @property
    def never(self) -> str:
        """What a row carries instead where the model never takes the document."""
        return f"!{self.mark}"

    @property
    def following_side(self) -> Side:
        return "next" if self.side == "main" else "main"

    def made_with(self, model: Model) -> "Space":
        """The same space, from now on with another model of equal dimensions."""
        return replace(self, model=model, fingerprint=model.fingerprint, format=FORMAT_VERSION)

    def described(self) -> str:
        return f"{self.model.name} with {self.model.dims} dimensions, generation {self.generation}"


def of(given: Vars, model: Model, **changes: Any) -> Space:
    """The space that a Worker with these variables is made for."""
    return Space(given.generation, model, model.fingerprint, FORMAT_VERSION, METRIC, **changes)


@dataclass(frozen=True)
class Known:
    """What `meta` says: `text` is its very words, for compare and set.

    `discarding` while rows are left of a space that has been discarded; `ended` is when (ms) the last
    replacement ended by leaving the space that answered searches until then, 0 for never.
    """

    serving: Space
    other: Space | None
    discarding: bool
    text: str
    ended: int = 0

    def of(self, generation: int) -> Space | None:
        """The space of this generation."""
        each = [space for space in (self.serving, self.other) if space and space.generation == generation]
        return each[0] if each else None

    def with_changed(self, old: Space, new: Space) -> str:
        """The value of `space` with one of the spaces changed."""
        serving = new if self.serving == old else self.serving
        other = new if self.other == old else self.other
        return text(serving, other, discarding=self.discarding, ended=self.ended)


def read(meta: Mapping[str, str]) -> Known | None:
    """The spaces that the data is in; None before the first boot."""
    if _KEY not in meta:
        return None
    found = json.loads(meta[_KEY])
    other = found.get("other")
    return Known(
        _space(found),
        _space(other) if other else None,
        bool(found.get("discarding")),
        meta[_KEY],
        int(found.get("ended", 0)),
    )


def text(serving: Space, other: Space | None = None, *, discarding: bool = False, ended: int = 0) -> str:
    """The value of `space`: what every Worker, the statements' fences and the operator's tools read."""
    each = {space.side: space for space in (other, serving) if space}
    sides: tuple[Side, ...] = ("main", "next")
    return compact(
        {
            **_record(serving),
            "other": _record(other) if other else None,
            "discarding": discarding,
            "ended": ended,
            "ids": {side: each[side].id if side in each else UNUSED for side in sides},
            "marks": {side: each[side].mark if side in each else None for side in sides},
        }
    )


def _record(space: Space) -> dict[str, Any]:
    return {
        "generation": space.generation,
        "model": space.model.name,
        "dims": space.model.dims,
        "metric": space.metric,
        "fingerprint": space.fingerprint,
        "mark": space.mark,
        "side": space.side,
        "id": space.id,
        "format": space.format,
        "profile": list(space.model),
        "reindexing": space.reindexing,
        "since": space.since,
        "began": space.began,
    }


def _space(found: Mapping[str, Any]) -> Space:
    profile = Model(*found["profile"])._replace(dims=found["dims"])
    names = ("generation", "fingerprint", "format", "metric", "side", "id", "reindexing", "since", "began")
    return Space(model=profile, **{name: found[name] for name in names})
