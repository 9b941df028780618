"""Documents: ingest, read, list, delete."""

from typing import Annotated

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from rag import core
from rag import schemas as s
from rag import values as v
from rag.auth import require_auth
from rag.batch import ingest_batch
from rag.errors import Problem
from rag.routes.common import Env, documented, reply, request_id, router

routes = router("documents")
_READ, _WRITE = [require_auth("read")], [require_auth("write")]

DocId = Annotated[
    v.DocumentId, Path(alias="id", description="The document's id; percent-encode a slash in it.")
]


@routes.post(
    "/v1/ingest", dependencies=_WRITE, response_model=s.IngestResult, responses=documented(409, 413, 502, 503)
)
async def ingest(document: s.Document, env: Env) -> Response:
    """Ingest one document.

    Safe to repeat: a document that is stored already, with the same content and embedding, is skipped.
    """
    (result,) = await core.ingest_docs(env, [document], source="http")
    if isinstance(result, Problem):
        raise result
    return reply(result)


@routes.post(
    "/v1/ingest/batch", dependencies=_WRITE, response_model=s.BatchResult, responses=documented(413, 502, 503)
)
async def ingest_many(batch: s.BatchRequest, env: Env, request: Request) -> Response:
    """Ingest up to 100 documents.

    Each has its own result, in order. One that can't be taken is `failed` with its problem; the others are
    not concerned.
    """
    return reply(await ingest_batch(env, batch.documents, source="http", request_id=request_id(request)))


@routes.get("/v1/docs", dependencies=_READ, response_model=s.DocList, responses=documented(503))
async def list_documents(query: Annotated[s.ListQuery, Query()], env: Env) -> Response:
    """List documents by id, page by page, or those written last.

    State only, or with `content=true` also titles, texts, tags and metadata.
    """
    size, recent = query.page_size(), query.order == "recent"
    listed = core.list_docs(env, query.cursor, size, query.content, recent=recent, after=query.after)
    return reply(await listed)


# Before the routes with an id: this path is no document.
@routes.post(
    "/v1/docs/delete", dependencies=_WRITE, response_model=s.DeleteResults, responses=documented(502, 503)
)
async def delete_documents(request: s.DeleteRequest, env: Env) -> Response:
    """Delete documents by id. Ids that are not there are `missing`, which is no error."""
    return reply(s.DeleteResults(results=await core.delete_docs(env, request.ids)))


@routes.get("/v1/docs/{id:path}", dependencies=_READ, response_model=s.Doc, responses=documented(404, 503))
async def get_document(doc_id: DocId, env: Env) -> Response:
    """Get one document.

    `state` is `indexing` as long as the index does not show what was last written.
    """
    return reply(await core.get_doc(env, doc_id))


@routes.delete(
    "/v1/docs/{id:path}", dependencies=_WRITE, response_model=s.DeleteResult, responses=documented(502, 503)
)
async def delete_document(doc_id: DocId, env: Env) -> Response:
    """Delete one document. One that is not there is `missing`, which is no error."""
    (result,) = await core.delete_docs(env, [doc_id])
    return reply(result)
