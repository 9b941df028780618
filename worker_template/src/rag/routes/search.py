"""Search and the state of the service."""

from starlette.responses import Response

from rag import core, transfer
from rag import schemas as s
from rag.auth import require_auth
from rag.routes.common import Env, documented, reply, router

routes = router("search")
_READ = [require_auth("read")]


@routes.post(
    "/v1/search", dependencies=_READ, response_model=s.SearchResponse, responses=documented(409, 502, 503)
)
async def search(request: s.SearchRequest, env: Env) -> Response:
    """Find documents by meaning.

    `filter` and `tags` narrow the search before it is made. A filter on a field that is still being indexed
    is a 409 with the progress.
    """
    return reply(await core.search_docs(env, request))


@routes.get("/v1/stats", dependencies=_READ, response_model=s.Stats, responses=documented(502))
async def stats(env: Env) -> Response:
    """The state of the vector space, counts of documents, and the progress of what is under way."""
    return reply(await core.get_stats(env))


@routes.get("/v1/space", dependencies=_READ, response_model=s.Space, responses=documented(503))
async def space(env: Env) -> Response:
    """What documents and their vectors are made of here, for backups: fields, model, fingerprint."""
    return reply(await transfer.get_space(env))
