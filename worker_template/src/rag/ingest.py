"""The one ingest path: claim in D1, embed, write the vector, commit in D1.

While a space is being replaced, documents are embedded and written for both spaces side by side; the serving
one decides. Round trips of a single ingest: 2 D1, and for each space 1 AI and 1 Vectorize.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rag import embedder, repairs, store, vectors
from rag.bindings import Bindings
from rag.document import formatted, vector_metadata
from rag.errors import Problem
from rag.filterable import SCHEMA
from rag.hashing import content_hash
from rag.logs import log
from rag.model_state import State
from rag.rows import LEASE_MS, Claim, Row, Written, now_ms
from rag.schemas import Document, IngestResult
from rag.spaces import Space

# By id, the values to write or why there are none.
_Values = dict[str, list[float] | Problem]
# The hash that the other space holds of a document, and the mark of what it was made with.
_Copied = tuple[str | None, str]


@dataclass(frozen=True)
class _Work:
    """A document on its way: its place in the request, its hash and what its vector will carry.

    `given` are the values of the serving space's vector, where they need not be asked of AI.
    """

    at: int
    document: Document
    hash: str
    metadata: dict[str, Any]
    given: list[float] | None

    @property
    def id(self) -> str:
        return self.document.id


async def ingest(
    b: Bindings, state: State, documents: Sequence[Document], given: Sequence[list[float]] = ()
) -> list[IngestResult | Problem]:
    """A result for each document, in order. Of documents with one id, the last one stays.

    `given` are vectors of the documents, one for each, made as those of the serving space are; or none.
    """
    results: dict[int, IngestResult | Problem] = {}
    rounds: list[dict[str, _Work]] = []
    for at, document in enumerate(documents):
        try:
            work = _prepare(at, document, given[at] if given else None)
        except Problem as problem:
            results[at] = problem
            continue
        free = next((each for each in rounds if work.id not in each), None)
        if free is None:
            rounds.append(free := {})
        free[work.id] = work
    for each in rounds:
        results.update(await _Round(b, state).run(each))
    return [results[at] for at in range(len(documents))]


def _prepare(at: int, document: Document, given: list[float] | None) -> _Work:
    hashed = content_hash(document.title, document.body, document.tags, document.metadata)
    return _Work(at, document, hashed, vector_metadata(document, hashed, document.active), given)


class _Round:
    """Documents with different ids, written together."""

    def __init__(self, b: Bindings, state: State) -> None:
        self.b, self.state = b, state
        self.results: dict[int, IngestResult | Problem] = {}

    async def run(self, works: dict[str, _Work]) -> dict[int, IngestResult | Problem]:
        serving = self.state.serving
        try:
            claims = [_claim(work) for work in works.values()]
            claimed = await store.claim(self.b.db, claims, serving, self.state.desired + serving.id)
            self._answer((work for work in works.values() if work.id not in claimed), "skipped")
            if claimed:
                await self._write([work for work in works.values() if work.id in claimed], claimed)
        except Problem as problem:
            # What was written before stays claimed: the next ingest or the sweep finds out.
            for work in works.values():
                self.results.setdefault(work.at, problem)
        return self.results

    async def _write(self, works: list[_Work], rows: dict[str, Row]) -> None:
        values, other = await asyncio.gather(
            self._values(self.state.serving, works, rows), self._other_values(works, rows)
        )
        ready = [work for work in works if not isinstance(values[work.id], Problem)]
        await self._refuse([work for work in works if isinstance(values[work.id], Problem)], values, rows)
        if not ready:
            return
        await wait_for_sweep(rows[work.id] for work in ready)
        _, copied = await asyncio.gather(
            _upsert(self.b, self.state.serving, ready, values),
            _copy(self.b, self.state.other, ready, values if other is None else other),
        )
        await self._commit(ready, rows, copied)
        self._answer(ready, "indexed")

    async def _other_values(self, works: list[_Work], rows: dict[str, Row]) -> _Values | None:
        """What to write into the other space; None if there is none, or the same values are good for both."""
        other = self.state.other
        if other is None or other.fingerprint == self.state.serving.fingerprint:
            return None
        try:
            return await self._values(other, works, rows)
        except Problem as problem:
            return dict.fromkeys((work.id for work in works), problem)

    async def _values(self, space: Space, works: list[_Work], rows: dict[str, Row]) -> _Values:
        """What to write into a space for each document, or why there is nothing to write."""
        values: _Values = {}
        if space.fingerprint == self.state.serving.fingerprint:
            values |= {work.id: work.given for work in works if work.given is not None}
        same = [work for work in works if work.id not in values and self._flag_only(work, rows[work.id])]
        values |= await self._stored_values(space, same)
        bare = [work for work in works if work.id not in values]
        if bare:
            texts = [formatted(work.document) for work in bare]
            embedded = await embedder.embed_documents(self.b.ai, space.model, texts)
            values |= {work.id: result for work, result in zip(bare, embedded, strict=True)}
        return values

    def _flag_only(self, work: _Work, row: Row) -> bool:
        """Whether the stored vector is right but for `active`, and can't be mistaken for an older one."""
        same = row.content_hash == work.hash and row.embed_model == self.state.serving.mark
        alone = row.pending_hash == work.hash and row.deleted_at is None
        return same and alone and not work.document.force_reindex

    async def _stored_values(self, space: Space, works: list[_Work]) -> dict[str, list[float]]:
        """Values to write again without a call of AI, where the index shows this very content."""
        if not works or not self.state.settled(space):
            return {}
        found = await vectors.get(self.b.bound(space.generation), [work.id for work in works])
        return {
            work.id: found[work.id].values
            for work in works
            if work.id in found and found[work.id].content_hash == work.hash
        }

    async def _refuse(self, works: list[_Work], values: _Values, rows: dict[str, Row]) -> None:
        """Answer for what could not be embedded; nothing of it has been written."""
        for work in works:
            problem = values[work.id]
            if isinstance(problem, Problem):
                self.results[work.at] = problem
        if works:
            await store.release(self.b.db, [rows[work.id] for work in works])

    async def _commit(self, works: list[_Work], rows: dict[str, Row], copied: dict[str, _Copied]) -> None:
        written = [
            Written(
                work.id,
                rows[work.id].seq,
                work.hash,
                work.document.active,
                *copied.get(work.id, (None, None)),
            )
            for work in works
        ]
        held = await store.commit(self.b.db, written, self.state.serving, self.state.other, SCHEMA)
        unsure = [work.id for work in works if work.id not in held]
        if unsure:
            await repairs.lost(self.b, self.state, unsure)
        if contested := [work.id for work in works if work.id in held and rows[work.id].contested]:
            await repairs.ask(self.b, contested)

    def _answer(self, works: Iterable[_Work], status: Any) -> None:
        for work in works:
            self.results[work.at] = IngestResult(
                id=work.id, status=status, content_hash=work.hash, embed_model=self.state.serving.model.name
            )


async def _upsert(b: Bindings, space: Space, works: Iterable[_Work], values: _Values) -> None:
    await vectors.upsert(
        b.bound(space.generation),
        [{"id": work.id, "values": values[work.id], "metadata": work.metadata} for work in works],
    )


async def _copy(b: Bindings, space: Space | None, works: list[_Work], values: _Values) -> dict[str, _Copied]:
    """Write into the space that does not decide; by id, what it holds then: its failures are the sweep's."""
    if space is None:
        return {}
    ready = [work for work in works if not isinstance(values[work.id], Problem)]
    # Its model does not take what they say now; what they said before must not be found any more.
    refused = [work.id for work in works if _for_ever(values[work.id])]
    try:
        if ready:
            await _upsert(b, space, ready, values)
        if refused:
            await vectors.delete(b.bound(space.generation), refused)
    except Problem as problem:
        log("warn", "the other space took no documents", generation=space.generation, detail=problem.detail)
        return {}
    return {work.id: (work.hash, space.mark) for work in ready} | dict.fromkeys(refused, (None, space.never))


def _for_ever(value: list[float] | Problem) -> bool:
    return isinstance(value, Problem) and not value.transient


def _claim(work: _Work) -> Claim:
    return Claim(work.id, work.hash, work.document.active, work.document.force_reindex)


async def wait_for_sweep(rows: Iterable[Row]) -> None:
    """Let a sweep that is writing the old content finish, so that it can't come after the new."""
    leases = [row.lease_at for row in rows if row.lease_at is not None]
    wait = max(leases, default=0) + LEASE_MS - now_ms()
    if wait > 0:
        await asyncio.sleep(min(wait, LEASE_MS) / 1000)
