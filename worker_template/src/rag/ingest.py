"""The one ingest path: claim in D1, embed, write the vector, commit in D1."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rag import embedder, repairs, store, vectors
from rag.bindings import Bindings
from rag.document import formatted, vector_metadata
from rag.errors import Problem
from rag.hashing import content_hash
from rag.model_state import SCHEMA, State
from rag.schemas import Document, IngestResult


@dataclass(frozen=True)
class _Work:
    """A document on its way: its place in the request, its hash and what its vector will carry."""

    at: int
    document: Document
    hash: str
    metadata: dict[str, Any]

    @property
    def id(self) -> str:
        return self.document.id


async def ingest(b: Bindings, state: State, documents: list[Document]) -> list[IngestResult | Problem]:
    """A result for each document, in order. Of documents with one id, the last one stays."""
    results: dict[int, IngestResult | Problem] = {}
    rounds: list[dict[str, _Work]] = []
    for at, document in enumerate(documents):
        try:
            work = _prepare(at, document)
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


def _prepare(at: int, document: Document) -> _Work:
    hashed = content_hash(document.title, document.body, document.tags, document.metadata)
    return _Work(at, document, hashed, vector_metadata(document, hashed, document.active))


class _Round:
    """Documents with different ids, written together."""

    def __init__(self, b: Bindings, state: State) -> None:
        self.b, self.state = b, state
        self.results: dict[int, IngestResult | Problem] = {}

    async def run(self, works: dict[str, _Work]) -> dict[int, IngestResult | Problem]:
        try:
            claimed = await store.claim(
                self.b.db,
                [_claim(work) for work in works.values()],
                self.state.fingerprint,
                self.state.desired,
            )
            self._answer((work for work in works.values() if work.id not in claimed), "skipped")
            if claimed:
                await self._write([work for work in works.values() if work.id in claimed], claimed)
        except Problem as problem:
            # What was written before stays claimed: the next ingest or the sweep finds out.
            for work in works.values():
                self.results.setdefault(work.at, problem)
        return self.results

    async def _write(self, works: list[_Work], rows: dict[str, store.Row]) -> None:
        values = await self._stored_values([work for work in works if self._flag_only(work, rows[work.id])])
        values |= await self._embedded([work for work in works if work.id not in values], rows)
        ready = [work for work in works if work.id in values]
        if not ready:
            return
        await wait_for_sweep(rows[work.id] for work in ready)
        await vectors.upsert(
            self.b.vectorize,
            [{"id": work.id, "values": values[work.id], "metadata": work.metadata} for work in ready],
        )
        await self._commit(ready, rows)
        self._answer(ready, "indexed")

    def _flag_only(self, work: _Work, row: store.Row) -> bool:
        """Whether the stored vector is right but for `active`, and can't be mistaken for an older one."""
        same = row.content_hash == work.hash and row.embed_model == self.state.fingerprint
        alone = row.pending_hash == work.hash and row.deleted_at is None
        return same and alone and self.state.settled and not work.document.force_reindex

    async def _stored_values(self, works: list[_Work]) -> dict[str, list[float]]:
        """Values to write again without a call of AI, where the index shows this very content."""
        if not works:
            return {}
        found = await vectors.get(self.b.vectorize, [work.id for work in works])
        return {
            work.id: found[work.id].values
            for work in works
            if work.id in found and found[work.id].content_hash == work.hash
        }

    async def _embedded(self, works: list[_Work], rows: dict[str, store.Row]) -> dict[str, list[float]]:
        if not works:
            return {}
        texts = [formatted(work.document) for work in works]
        embedded = await embedder.embed_documents(self.b.ai, self.state.model, texts)
        values: dict[str, list[float]] = {}
        failed: list[store.Row] = []
        for work, result in zip(works, embedded, strict=True):
            if isinstance(result, Problem):
                self.results[work.at] = result
                failed.append(rows[work.id])
            else:
                values[work.id] = result
        if failed:
            await store.release(self.b.db, failed)
        return values

    async def _commit(self, works: list[_Work], rows: dict[str, store.Row]) -> None:
        written = [
            store.Written(work.id, rows[work.id].seq, work.hash, work.document.active) for work in works
        ]
        held = await store.commit(self.b.db, written, self.state.fingerprint, SCHEMA)
        unsure = [work.id for work in works if work.id not in held]
        if unsure:
            await repairs.lost(self.b, unsure)
        if contested := [work.id for work in works if work.id in held and rows[work.id].contested]:
            await repairs.ask(self.b, contested)

    def _answer(self, works: Iterable[_Work], status: Any) -> None:
        for work in works:
            self.results[work.at] = IngestResult(
                id=work.id, status=status, content_hash=work.hash, embed_model=self.state.model.name
            )


def _claim(work: _Work) -> store.Claim:
    return store.Claim(work.id, work.hash, work.document.active, work.document.force_reindex)


async def wait_for_sweep(rows: Iterable[store.Row]) -> None:
    """Let a sweep that is writing the old content finish, so that it can't come after the new."""
    leases = [row.lease_at for row in rows if row.lease_at is not None]
    wait = max(leases, default=0) + store.LEASE_MS - store.now_ms()
    if wait > 0:
        await asyncio.sleep(min(wait, store.LEASE_MS) / 1000)
