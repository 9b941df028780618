"""MCP over streamable HTTP, without sessions: who may call, and what of a message can be answered at all."""

from urllib.parse import urlsplit

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rag import settings
from rag.auth import INTERNAL, Caller, authenticate, unauthorized
from rag.bindings import Bindings
from rag.body import read_body
from rag.errors import Problem

PATH = "/mcp"
_METADATA = "/.well-known/oauth-protected-resource"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})

routes = APIRouter(include_in_schema=False)


@routes.post(PATH)
async def post(request: Request) -> Response:
    """One JSON-RPC message in, one answer out."""
    check_origin(request)
    caller = await _caller(request)
    # Some hundred models: built by the first call of an isolate, not when the Worker starts.
    from rag import mcp_server

    return await mcp_server.answer(
        request.scope["headers"], await read_body(request), caller, Bindings.from_env(request.scope["env"])
    )


def check_origin(request: Request) -> None:
    """Raises the 403 for a browser's page from elsewhere; other clients send no Origin."""
    origins = request.headers.getlist("origin")
    if not origins or "*" in settings.CORS_ORIGINS:
        return
    if len(origins) > 1 or not (origins[0] in settings.CORS_ORIGINS or _own(request, origins[0])):
        raise Problem(
            "forbidden", "pages of this origin may not use MCP here; see cors.origins in the config"
        )


def _own(request: Request, origin: str) -> bool:
    # The Host header alone proves nothing: a name can be made to lead here (DNS rebinding).
    host = request.headers.get("host", "")
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    ours = name in _LOOPBACK or name.endswith(".workers.dev") or name == settings.DOMAIN
    return ours and origin == f"{request.url.scheme}://{host}"


async def _caller(request: Request) -> Caller:
    try:
        caller = await authenticate(request)
        if caller is INTERNAL and not settings.MCP_INTERNAL_SECRET:
            raise unauthorized("the internal secret is not taken here; use an API key", invalid=True)
    except Problem as problem:
        raise _announced(problem, request) from None
    request.scope["rag.caller"] = caller
    return caller


def _announced(problem: Problem, request: Request) -> Problem:
    """The problem, with a 401 telling where to log in, if there is somewhere."""
    if problem.status == 401 and settings.MCP_AUTHORIZATION_SERVERS:
        problem.headers["WWW-Authenticate"] += f', resource_metadata="{_base(request)}{_METADATA}{PATH}"'
    return problem


def _base(request: Request) -> str:
    parts = urlsplit(str(request.url))
    return f"{parts.scheme}://{parts.netloc}"


async def resource_metadata(request: Request) -> Response:
    """RFC 9728: which authorization servers issue tokens for this resource."""
    return JSONResponse(
        {
            "resource": _base(request) + PATH,
            "authorization_servers": settings.MCP_AUTHORIZATION_SERVERS,
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["read", "write"],
        }
    )


if settings.MCP_AUTHORIZATION_SERVERS:
    # Strict clients ask under the path of the resource too.
    for path in (_METADATA, _METADATA + PATH):
        routes.add_api_route(path, resource_metadata, methods=["GET"])
