"""For operators, with the internal secret only: API keys and the queue."""

from typing import Annotated

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from rag import keys
from rag import schemas as s
from rag.auth import require_internal_secret
from rag.enqueue import enqueue
from rag.routes.common import Env, documented, reply, request_id, router

key_routes = router("keys")
queue_routes = router("queue")
_INTERNAL = [require_internal_secret()]

KeyId = Annotated[str, Path(alias="id", max_length=64)]


@key_routes.post("/v1/internal/keys", dependencies=_INTERNAL, status_code=201, response_model=s.MintedKey)
async def create_key(request: s.KeyRequest, env: Env) -> Response:
    """Make an API key. Its text is in this answer and nowhere else."""
    return reply(await keys.mint(env.db, request), 201)


@key_routes.get("/v1/internal/keys", dependencies=_INTERNAL, response_model=s.KeyList)
async def list_keys(env: Env) -> Response:
    """List all API keys, revoked and expired ones too, without their texts."""
    return reply(s.KeyList(keys=await keys.listed(env.db)))


@key_routes.delete(
    "/v1/internal/keys/{id}", dependencies=_INTERNAL, response_model=s.Key, responses=documented(404)
)
async def revoke_key(key_id: KeyId, env: Env) -> Response:
    """Revoke an API key, at once and for good."""
    return reply(await keys.revoke(env.db, key_id))


@queue_routes.post(
    "/v1/internal/enqueue",
    dependencies=_INTERNAL,
    status_code=202,
    response_model=s.EnqueueResult,
    responses=documented(413, 503),
)
async def enqueue_documents(batch: s.BatchRequest, env: Env, request: Request) -> Response:
    """Queue up to 100 documents, to be ingested soon.

    An overloaded queue is a 503 with `Retry-After` and the ids of those that were not accepted.
    """
    return reply(await enqueue(env, batch.documents, request_id(request)), 202)
