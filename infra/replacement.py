"""How far the replacement of a space is, as a stack's D1 says: for the provider's gate and the command line.

Only the Worker writes `space` in `meta`. At its top is the space that answers searches; `other` is the second
one of a replacement under way: the one that takes over, or after the cut-over the one that was replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Side = Literal["main", "next"]

EVERYWHERE_AFTER_MS = 60_000
"""An isolate of the Worker goes on for at most so long without looking which space answers searches."""


@dataclass(frozen=True)
class SpaceInfo:
    """One space of a stack; `side` names the columns that say what it holds, `began` is in ms."""

    generation: int
    model: str
    dims: int
    metric: str
    side: Side
    mark: str
    began: int

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> SpaceInfo:
        """From `space` in `meta`, or from its `other`."""
        return cls(
            int(found["generation"]),
            found["model"],
            int(found["dims"]),
            found.get("metric", "cosine"),
            found.get("side", "main"),
            found.get("mark", found.get("fingerprint", "")),
            int(found.get("began", 0)),
        )


@dataclass(frozen=True)
class Spaces:
    """The spaces that a stack's data is in; `discarding` while rows of a discarded one are left.

    `ended` is when (ms) an abort has taken the searches back from another space, 0 for never.
    """

    serving: SpaceInfo
    other: SpaceInfo | None
    discarding: bool
    ended: int = 0

    @classmethod
    def of(cls, meta: Mapping[str, str]) -> Spaces | None:
        """From the rows of `meta`; None before the Worker's first boot."""
        if "space" not in meta:
            return None
        found = json.loads(meta["space"])
        other = found.get("other")
        return cls(
            SpaceInfo.of(found),
            SpaceInfo.of(other) if other else None,
            bool(found.get("discarding")),
            int(found.get("ended", 0)),
        )

    def find(self, generation: int) -> SpaceInfo | None:
        """The space of a generation, if the data is or is becoming in it."""
        each = (self.serving, self.other)
        return next((space for space in each if space and space.generation == generation), None)

    def cut_over_to(self, generation: int) -> bool:
        """Whether searches are answered from this generation."""
        return self.serving.generation == generation

    @property
    def taken_over(self) -> int:
        """When (ms) searches were given to the serving space, once a replacement has cut over."""
        return self.other.began if self.other else self.serving.began


def progress_sql(side: Side) -> str:
    """One row: `total` documents, those `missing` in the space of this side, and of these those `failed`.

    Missing are also those of which a write is under way; failed are those that its model never takes.
    """
    # SQLAlchemy is a fifth of a plugin's start, and only the end of a replacement needs it.
    from infra.bundle import sweeps
    from infra.bundle.expressions import MAIN, NEXT

    return _sql(sweeps.missing(MAIN, NEXT) if side == "main" else sweeps.missing(NEXT, MAIN))


def failed_sql(side: Side) -> str:
    """Rows of `id`: at most 1,000 documents that the model of this side's space never takes."""
    from infra.bundle import sweeps
    from infra.bundle.expressions import MAIN, NEXT

    return _sql(sweeps.never_taken(MAIN if side == "main" else NEXT))


def _sql(expression: Any) -> str:
    from infra.bundle.expressions import Statement

    return Statement(expression, ()).sql()
