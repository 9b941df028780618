"""Backups: what the space is, its vectors as they are stored, and documents that bring theirs with them."""

import asyncio
import math
from collections.abc import Sequence

from rag import ingest, model_state, store, sweep, vectors
from rag.bindings import Bindings
from rag.errors import Problem, conflict, invalid_value
from rag.logs import log
from rag.rows import CLAIM_MS
from rag.schemas import DocumentWithVector, FieldInfo, IngestResult, Space, StoredVector, StoredVectors
from rag.settings import FIELDS, MAX_TAGS, NAME

# Vectorize keeps values as float32.
_MOST = 3.4028234663852886e38


async def get_space(b: Bindings) -> Space:
    """The space that answers searches, as `meta` says at this moment, also where its state is a mismatch."""
    model_state.forget()
    state = await model_state.current(b)
    space = state.serving
    return Space(
        name=NAME,
        state=state.status,
        generation=space.generation,
        model=space.model.name,
        pooling=space.model.pooling,
        dims=space.model.dims,
        metric=space.metric,
        fingerprint=space.fingerprint,
        since=space.since,
        settled=state.settled(space),
        max_tags=MAX_TAGS,
        fields={name: FieldInfo(**field) for name, field in FIELDS.items()},
    )


async def get_vectors(b: Bindings, ids: Sequence[str]) -> StoredVectors:
    """Those of the vectors that can be seen and were made with the space's model.

    Raises Problem (409) while vectors of an older model may still be among them.
    """
    state = await model_state.ensure(b)
    space = state.serving
    if not state.settled(space):
        minutes = CLAIM_MS // 60_000
        detail = f"vectors of an older model can be read until {minutes} minutes after all have been replaced"
        raise conflict(detail)
    rows, found = await asyncio.gather(
        store.rows(b.db, ids, space), vectors.get(b.bound(space.generation), ids)
    )
    made = [each for each in ids if each in found and each in rows and rows[each].embed_model == space.mark]
    return StoredVectors(
        generation=space.generation,
        fingerprint=space.fingerprint,
        vectors=[
            StoredVector(id=each, content_hash=found[each].content_hash, values=found[each].values)
            for each in made
        ],
    )


async def import_docs(
    b: Bindings, fingerprint: str, docs: Sequence[DocumentWithVector]
) -> list[IngestResult | Problem]:
    """Store documents with the vectors that they bring; for each, in order, its result, as an ingest has it.

    Only the embedding is left out. Raises Problem where the vectors are of another making than the space's
    (422), while the space's own are being made anew (409), and where the space is a mismatch (503).
    """
    state = await model_state.ensure(b)
    await sweep.revive(b, state)
    space = state.serving
    if fingerprint != space.fingerprint:
        detail = (
            f"the vectors are of {fingerprint}, this space's of {space.fingerprint}: ingest the documents"
        )
        raise invalid_value(detail, field="fingerprint")
    if space.reindexing:
        raise conflict("all documents are being embedded again; ingest these, or wait until that is done")
    faults = [_fault(each.values, space.model.dims) for each in docs]
    good = [each for each, fault in zip(docs, faults, strict=True) if fault is None]
    stored = iter(await ingest.ingest(b, state, good, [each.values for each in good]))
    results = [fault or next(stored) for fault in faults]
    log("info", "import", documents=len(results), failed=sum(isinstance(each, Problem) for each in results))
    return results


def _fault(values: list[float], dims: int) -> Problem | None:
    """What keeps values from being a vector of the space."""
    if len(values) != dims:
        detail = f"the vector has {len(values)} values; the space has {dims} dimensions"
        return invalid_value(detail, field="values", limit=dims, actual=len(values))
    if not all(math.isfinite(each) and abs(each) <= _MOST for each in values):
        return invalid_value("the vector holds values that are no float32", field="values", limit=_MOST)
    return None
