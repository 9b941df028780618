"""The HTTP side: routes, API description and the one error handler, put together."""

from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from rag import mcp
from rag.edge import Edge, raise_through
from rag.openapi import describe, operation_id
from rag.routes import dashboard, documents, internal, search, service, transfer
from rag.settings import AUTH_MODE, CORS_ORIGINS, DASHBOARD, MCP_ENABLED, NAME

_EXPOSED = ["Server-Timing", "X-Request-Id", "WWW-Authenticate", "Retry-After"]


class Api(FastAPI):
    """FastAPI with this service's own description and errors."""

    def openapi(self) -> dict[str, Any]:
        return describe(self)


def build() -> FastAPI:
    """The ASGI application. It keeps no state: the environment comes with each request's scope."""
    api = Api(
        title=NAME,
        version="1",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
        exception_handlers={HTTPException: raise_through, RequestValidationError: raise_through},
    )
    routers = [service.health]
    if AUTH_MODE != "service":
        routers += [service.routes, documents.routes, search.routes, internal.queue_routes, transfer.routes]
    if AUTH_MODE == "keys":
        routers.append(internal.key_routes)
    if DASHBOARD:
        routers.append(dashboard.routes)
    if MCP_ENABLED:
        routers.append(mcp.routes)
    for router in routers:
        api.include_router(router)
    api.add_middleware(Edge, routes=_routes(routers))
    if CORS_ORIGINS:
        _allow_origins(api)
    return api


def _routes(routers: list[APIRouter]) -> list[APIRoute]:
    return [route for router in routers for route in router.routes if isinstance(route, APIRoute)]


def _allow_origins(api: FastAPI) -> None:
    # Added last, so it is outermost: problems carry the headers too.
    api.add_middleware(
        CORSMiddleware,
        allow_origins=CORS_ORIGINS,
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"],
        expose_headers=_EXPOSED,
        max_age=86_400,
    )


app = build()
