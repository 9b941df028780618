"""Backups: vectors out of the space and into it, with the internal secret only."""

from starlette.requests import Request
from starlette.responses import Response

from rag import schemas as s
from rag import transfer
from rag.auth import require_internal_secret
from rag.batch import documents_of, results_of
from rag.routes.common import Env, documented, reply, request_id, router

routes = router("backup")
_INTERNAL = [require_internal_secret()]


@routes.post(
    "/v1/internal/vectors",
    dependencies=_INTERNAL,
    response_model=s.StoredVectors,
    responses=documented(409, 502, 503),
)
async def read_vectors(request: s.VectorsRequest, env: Env) -> Response:
    """Read the vectors of up to 20 documents, each with the hash of the content that it was made from.

    One that can't be seen yet, or that is of another making than the space's, is left out. A 409 while
    vectors of an older model may be among them.
    """
    return reply(await transfer.get_vectors(env, request.ids))


@routes.post(
    "/v1/internal/import",
    dependencies=_INTERNAL,
    response_model=s.BatchResult,
    responses=documented(409, 413, 502, 503),
)
async def import_many(batch: s.ImportRequest, env: Env, request: Request) -> Response:
    """Ingest up to 100 documents that bring their vectors, without embedding them again.

    Only with the fingerprint that the space has, as `/v1/space` says, or it is a 422; a 409 while the
    documents of the space are being embedded again. Everything else is as in a batch of an ingest.
    """
    done = await transfer.import_docs(env, batch.fingerprint, documents_of(batch.documents))
    return reply(results_of(batch.documents, done, request_id(request)))
