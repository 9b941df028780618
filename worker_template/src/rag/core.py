"""What the service does, for HTTP, MCP, RPC and the queue alike: values in, values or Problems out."""

import asyncio
import base64
import binascii
from collections.abc import Sequence

from rag import embedder, filterable, ingest, model_state, repairs, store, sweep, vectors
from rag.bindings import Bindings
from rag.document import stored
from rag.errors import Problem, invalid_value, unknown_document
from rag.logs import log
from rag.model_state import State
from rag.rows import Row, now_ms
from rag.schemas import (
    Counts,
    DeleteResult,
    Doc,
    DocList,
    DocState,
    Document,
    Hit,
    IngestResult,
    Progress,
    Replacing,
    SearchRequest,
    SearchResponse,
    Stats,
)


async def _state_of(b: Bindings) -> State:
    """The state for a data route; a sweep that is needed and silent is started again."""
    state = await model_state.ensure(b)
    await sweep.revive(b, state)
    return state


async def ingest_docs(b: Bindings, docs: Sequence[Document], *, source: str) -> list[IngestResult | Problem]:
    """Store documents; for each, in order, whether it was indexed or skipped, or its problem.

    Unchanged content that has the wanted embedding is skipped. Raises Problem where the service as a whole
    can't take documents (`dims_mismatch`).
    """
    state = await _state_of(b)
    results = await ingest.ingest(b, state, list(docs))
    failed = sum(isinstance(result, Problem) for result in results)
    log("info", "ingest", source=source, documents=len(results), failed=failed)
    return results


async def search_docs(b: Bindings, request: SearchRequest) -> SearchResponse:
    """The documents nearest in meaning that satisfy every condition, best first. Raises Problem."""
    state = await _state_of(b)
    await filterable.refuse_unready(b, state, request)
    any_of, space = vectors.filters(request.filter, request.tags, request.active), state.serving
    vector = await embedder.embed_query(b.ai, space.model, request.query)
    matches = await vectors.query(b.bound(space.generation), vector, request.top_k, any_of, space.metric)
    return SearchResponse(hits=[_hit(match) for match in matches])


def _hit(match: vectors.Record) -> Hit:
    found = stored(match.metadata)
    return Hit(
        id=match.id,
        score=match.score,
        title=found.title,
        body=found.body,
        tags=found.tags,
        metadata=found.metadata,
        active=found.active,
    )


async def get_doc(b: Bindings, doc_id: str) -> Doc:
    """A document with its content; `indexing` and without, while that can't be seen. Raises Problem (404)."""
    space = (await _state_of(b)).serving
    rows, found = await asyncio.gather(
        store.rows(b.db, [doc_id], space), vectors.get(b.bound(space.generation), [doc_id])
    )
    row = rows.get(doc_id)
    if row is None or row.deleted_at is not None:
        raise unknown_document(doc_id)
    return _doc(row, found.get(doc_id))


def _doc(row: Row, record: vectors.Record | None) -> Doc:
    state = _doc_state(row).model_dump()
    if record is None or record.content_hash != row.content_hash:
        return Doc(**{**state, "state": "indexing"})
    found = stored(record.metadata)
    return Doc(
        **{**state, "state": "indexed"},
        title=found.title,
        body=found.body,
        tags=found.tags,
        metadata=found.metadata,
    )


def _doc_state(row: Row) -> DocState:
    known = row.content_hash is not None and not row.in_flight(now_ms())
    return DocState.model_validate(
        {
            "id": row.id,
            "state": "indexed" if known else "indexing",
            "active": row.active,
            "content_hash": row.content_hash,
            "embed_model": _model_name(row.embed_model),
            "indexed_at": row.indexed_at,
        }
    )


def _model_name(fingerprint: str | None) -> str | None:
    return fingerprint.removeprefix("!").partition("#")[0] if fingerprint else None


async def list_docs(
    b: Bindings,
    cursor: str | None,
    limit: int,
    content: bool,
    *,
    recent: bool = False,
    after: str | None = None,
) -> DocList:
    """A page of documents by id, with content if asked for. Raises Problem (422) for a wrong cursor.

    `recent` asks for those written last, newest first, on one page; `after` an id for those behind it.
    """
    space = (await _state_of(b)).serving
    reading = (
        store.recent(b.db, limit, space)
        if recent
        else store.page(b.db, after or _after(cursor), limit + 1, space)
    )
    rows = await reading
    shown = rows[:limit]
    documents: list[Doc | DocState] = [_doc_state(row) for row in shown]
    if content and shown:
        found = await vectors.get(b.bound(space.generation), [row.id for row in shown])
        documents = [_doc(row, found.get(row.id)) for row in shown]
    return DocList(documents=documents, cursor=_cursor(shown[-1].id) if len(rows) > limit else None)


def _cursor(doc_id: str) -> str:
    return base64.urlsafe_b64encode(doc_id.encode()).decode().rstrip("=")


def _after(cursor: str | None) -> str:
    if cursor is None:
        return ""
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise invalid_value("cursor: take it from the page before, or leave it out", field="cursor") from None


async def delete_docs(b: Bindings, ids: Sequence[str]) -> list[DeleteResult]:
    """Delete everywhere, ids without a known row too; for each, in order, whether there was a document."""
    state = await _state_of(b)
    rows, known = await store.tombstone(b.db, ids, state.serving)
    await ingest.wait_for_sweep(rows)
    reached = await repairs.delete_vectors(b, state, [row.id for row in rows])
    await store.drop(b.db, rows, reached)
    return [DeleteResult(id=each, status="deleted" if each in known else "missing") for each in ids]


async def get_stats(b: Bindings) -> Stats:
    """State of the vector space and what is in it, also where that state is a mismatch."""
    state = await model_state.current(b)
    await sweep.revive(b, state)
    space = state.serving
    counted = await store.counts(b.db, space)
    by_model = {_model_name(model) or "unknown": 0 for model, _, _ in counted}
    for model, documents, _ in counted:
        by_model[_model_name(model) or "unknown"] += documents
    return Stats(
        state=state.status,
        model=space.model.name,
        dims=space.model.dims,
        generation=space.generation,
        documents=Counts(
            total=sum(documents for _, documents, _ in counted),
            pending=sum(pending for _, _, pending in counted),
            by_model=by_model,
        ),
        progress=await _progress(b, state),
        replacing=_replacing(state),
        repairs=int(state.meta.get("repairs", 0)),
        advice=state.advice,
    )


def _replacing(state: State) -> Replacing | None:
    """The space that takes over or has just done so."""
    if state.other is None:
        return None
    new = state.incoming or state.serving
    return Replacing(
        generation=new.generation,
        model=new.model.name,
        dims=new.model.dims,
        cut_over=state.incoming is None,
    )


async def _progress(b: Bindings, state: State) -> Progress | None:
    """How far the sweep is, while there is one to wait for."""
    if not state.moves or (state.complete and not state.incoming):
        return None
    filled = state.incoming or state.serving
    source = next((space for space in state.spaces if space != filled), None)
    found = await store.progress(b.db, filled, source, filterable.SCHEMA)
    lacking = found.behind + (found.failed if state.incoming else 0)
    return Progress(done=found.total - lacking, total=found.total, failed=found.failed)
