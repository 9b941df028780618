"""What a row of D1 says of a document, and what is written into it."""

import time
from dataclasses import dataclass, replace

# How long a write may take: an older claim belongs to nobody any more.
CLAIM_MS = 5 * 60 * 1000
# By then all writes of a claim are visible in Vectorize, whose p99 is 2 minutes (changelog of 2026-06-30).
VISIBLE_MS = CLAIM_MS + 4 * 60 * 1000
# How long writers wait for a sweep that has taken a document; it writes within this time or not at all.
LEASE_MS = 5_000
_CONTESTED = "+"


def now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True)
class Row:
    """A document's state as seen from one space: `next_*` is what the other one holds of it."""

    id: str
    seq: int
    content_hash: str | None
    pending_hash: str | None
    pending_at: int | None
    indexed_at: int | None
    active: bool
    embed_model: str | None
    schema_rev: str | None
    next_hash: str | None
    next_model: str | None
    next_rev: str | None
    deleted_at: int | None
    lease_at: int | None

    @property
    def contested(self) -> bool:
        """Whether another write of other content was under way when this one began."""
        return (self.pending_hash or "").startswith(_CONTESTED)

    @property
    def claimed_hash(self) -> str | None:
        """What the last claim wants to write, "" if that is not known."""
        return self.pending_hash.removeprefix(_CONTESTED) if self.pending_hash is not None else None

    @property
    def only_elsewhere(self) -> bool:
        """Whether nothing is known here, nothing is under way, and the other space holds the document."""
        settled = self.pending_at is None and self.deleted_at is None
        return settled and self.content_hash is None and self.next_hash is not None

    def from_other_side(self) -> "Row":
        """The same row as seen from the other space."""
        return replace(
            self,
            content_hash=self.next_hash,
            embed_model=self.next_model,
            schema_rev=self.next_rev,
            next_hash=self.content_hash,
            next_model=self.embed_model,
            next_rev=self.schema_rev,
        )

    def in_flight(self, now: int) -> bool:
        """Whether a write may still be under way."""
        return self.pending_at is not None and self.pending_at >= now - CLAIM_MS

    def visible(self, now: int) -> bool:
        """Whether all that was ever written for this row can be seen in the index by now."""
        last = max(self.pending_at or 0, self.indexed_at or 0, self.deleted_at or 0)
        return last < now - VISIBLE_MS


@dataclass(frozen=True)
class Claim:
    """What to write: a document's id, hash and flag."""

    id: str
    hash: str
    active: bool
    forced: bool


@dataclass(frozen=True)
class Written:
    """What has been written under a claim; `next_*` is what the other space has of it then."""

    id: str
    seq: int
    hash: str
    active: bool
    next_hash: str | None = None
    next_model: str | None = None


@dataclass(frozen=True)
class Verified:
    """What the index was found to hold: its hash and flag, None where nothing is known to be there."""

    id: str
    seq: int
    hash: str | None
    active: bool | None


@dataclass(frozen=True)
class Progress:
    """Of all documents: to be made anew here, never taken by the model, kept in the other space only."""

    total: int
    behind: int
    failed: int
    stranded: int
