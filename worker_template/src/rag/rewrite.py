"""Vectors made again from what they hold: with another model, or unchanged for a new metadata index."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rag import embedder, repairs, store, vectors
from rag.bindings import Bindings
from rag.document import Stored, formatted, stored, vector_metadata
from rag.errors import Problem
from rag.filterable import SCHEMA
from rag.logs import log
from rag.model_state import State
from rag.rows import LEASE_MS, Row, Written, now_ms
from rag.spaces import Space

# Of the time that a writer waits for a sweep, how much may pass before the sweep itself begins to write.
START_WITHIN_MS = LEASE_MS * 3 // 5


@dataclass
class Outcome:
    """What became of ids: `later` are to be tried again, `failed` never; all others are as they should be.

    `unseen` are those of `later` whose content ought to be visible in the index for long.
    """

    later: set[str] = field(default_factory=set)
    unseen: set[str] = field(default_factory=set)
    failed: dict[str, Problem] = field(default_factory=dict)


@dataclass
class _Work:
    row: Row
    hash: str
    content: Stored
    values: list[float]


async def rewrite(b: Bindings, state: State, ids: Sequence[str]) -> Outcome:
    """Bring these documents to the wanted model and metadata indexes, in each space.

    Content is taken from the space itself, or from the other one for what it lacks, and only while it is what
    D1 knows: a vector that is missing or carries another hash is left for later, never taken as deleted, and
    old content never comes after new. Raises Problem where a store fails.
    """
    outcome = Outcome()
    for space in state.spaces:
        source = next((each for each in state.spaces if each != space), None)
        await _Target(b, state, space, source, outcome).bring(ids)
    return outcome


@dataclass
class _Target:
    """The space to write to, and the one to take from what it lacks."""

    b: Bindings
    state: State
    space: Space
    source: Space | None
    outcome: Outcome

    async def bring(self, ids: Sequence[str]) -> None:
        rows = [row for row in (await store.rows(self.b.db, ids, self.space)).values() if self._to_do(row)]
        if not rows:
            return
        works = await self._embedded(await self._read(rows))
        # What the model does not take keeps its old values and its mark.
        for mark in (self.space.mark, self.space.never):
            given_up = mark == self.space.never
            same = [work for work in works if (work.row.embed_model == self.space.never) == given_up]
            if same:
                await self._written(same, mark)

    def _to_do(self, row: Row) -> bool:
        """A write that is under way brings what is wanted itself, or the next pass finds the row."""
        if row.deleted_at is not None or row.pending_at is not None:
            return False
        if self._lacks(row):
            return row.content_hash is not None or row.embed_model != self.space.never
        if row.content_hash is None:
            return False
        other = row.embed_model not in (self.space.mark, self.space.never)
        return other or row.schema_rev != SCHEMA

    def _lacks(self, row: Row) -> bool:
        """Whether to take the content from the other space: the serving one is right if they differ."""
        if self.source is None or row.next_hash is None:
            return False
        return row.content_hash is None or (
            row.content_hash != row.next_hash and self.source == self.state.serving
        )

    async def _read(self, rows: list[Row]) -> list[_Work]:
        """What the rows say, where the index shows it."""
        lacking = {row.id for row in rows if self._lacks(row)}
        found = await vectors.get(
            self.b.bound(self.space.generation), [row.id for row in rows if row.id not in lacking]
        )
        if self.source and lacking:
            found |= await vectors.get(self.b.bound(self.source.generation), sorted(lacking))
        works: list[_Work] = []
        for row in rows:
            record, foreign = found.get(row.id), row.id in lacking
            expected = row.next_hash if foreign else row.content_hash
            if record is None or expected is None or record.content_hash != expected:
                self.outcome.later.add(row.id)
                if row.visible(now_ms()):
                    self.outcome.unseen.add(row.id)
            else:
                values = record.values if self._values_stay(row, foreign) else []
                works.append(_Work(row, expected, stored(record.metadata), values))
        return works

    def _values_stay(self, row: Row, foreign: bool) -> bool:
        if foreign and self.source:
            same = self.source.fingerprint == self.space.fingerprint and row.next_model == self.source.mark
            return same and self.state.settled(self.source)
        return row.embed_model in (self.space.mark, self.space.never) and self.state.settled(self.space)

    async def _embedded(self, works: list[_Work]) -> list[_Work]:
        """The works with values; what the model does not take is marked, so that no sweep tries it again."""
        bare = [work for work in works if not work.values]
        texts = [formatted(work.content) for work in bare]
        embedded = await embedder.embed_documents(self.b.ai, self.space.model, texts)
        refused: list[Row] = []
        for work, result in zip(bare, embedded, strict=True):
            if not isinstance(result, Problem):
                work.values = result
            elif result.transient:
                self.outcome.later.add(work.row.id)
            else:
                self.outcome.failed[work.row.id] = result
                refused.append(work.row)
        if refused:
            log("error", "documents that the model does not take", ids=[row.id for row in refused])
            await self._give_up(refused)
        return [work for work in works if work.values]

    async def _give_up(self, refused: list[Row]) -> None:
        """Mark them; where the space may hold what they said before, that must not be found any more."""
        lacking = [row for row in refused if self._lacks(row)]
        kept = [row for row in refused if row not in lacking]
        if lacking:
            leased = await self._leased(lacking, self.space.mark)
            await vectors.delete(self.b.bound(self.space.generation), list(leased))
            kept += leased.values()
        await store.failed(self.b.db, kept, self.space)

    async def _leased(self, rows: Sequence[Row], mark: str) -> dict[str, Row]:
        """Those that nobody has touched meanwhile, under a lease with enough time left to write in."""
        leased = await store.lease(self.b.db, rows, self.space, mark)
        taken = next((row.lease_at for row in leased.values() if row.lease_at), 0)
        if now_ms() - taken <= START_WITHIN_MS:
            return leased
        self.outcome.later |= set(leased)
        return {}

    async def _written(self, works: list[_Work], mark: str) -> None:
        """Write what nobody has touched meanwhile."""
        leased = await self._leased([work.row for work in works], mark)
        works = [work for work in works if work.row.id in leased]
        if not works:
            return
        upserts = [_vector(work, leased[work.row.id].active) for work in works]
        await vectors.upsert(self.b.bound(self.space.generation), upserts)
        written = [
            Written(work.row.id, leased[work.row.id].seq, work.hash, leased[work.row.id].active)
            for work in works
        ]
        held = await store.rewritten(self.b.db, written, self.space, mark, SCHEMA)
        overtaken = [each.id for each in written if each.id not in held]
        if overtaken:
            await repairs.lost(self.b, self.state, overtaken)


def _vector(work: _Work, active: bool) -> dict[str, Any]:
    return {
        "id": work.row.id,
        "values": work.values,
        "metadata": vector_metadata(work.content, work.hash, active),
    }
