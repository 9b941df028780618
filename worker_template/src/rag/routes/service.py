"""Health, and the API's description for machines and people."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from rag.auth import require_auth
from rag.dashboard.reference import POLICY, render
from rag.routes.common import reply, router
from rag.schemas import Health
from rag.settings import DOCS_PUBLIC

health = APIRouter(tags=["service"])
routes = router("service")
_DESCRIPTION: list[Any] = [] if DOCS_PUBLIC else [require_auth("read")]


@health.get("/health", response_model=Health)
async def get_health() -> Response:
    """Whether the Worker answers. Calls no other service and needs no key."""
    return reply(Health())


@routes.get("/openapi.json", dependencies=_DESCRIPTION, include_in_schema=False)
async def openapi(request: Request) -> Response:
    """The OpenAPI description."""
    return JSONResponse(_description(request))


@routes.get("/docs", dependencies=_DESCRIPTION, include_in_schema=False)
async def docs(request: Request) -> Response:
    """The same description as a page that loads nothing."""
    return HTMLResponse(render(_description(request)), headers={"Content-Security-Policy": POLICY})


def _description(request: Request) -> dict[str, Any]:
    """The description, with the path below which another Worker has mounted this one."""
    mounted = request.scope.get("root_path", "")
    servers = {"servers": [{"url": mounted}]} if mounted else {}
    return {**request.app.openapi(), **servers}
