"""The dashboard at `/`: public, as it holds no data; what it shows is asked for with the visitor's key."""

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from rag.dashboard.page import HTML, POLICY

routes = APIRouter(include_in_schema=False)


@routes.get("/")
async def dashboard() -> Response:
    """The page."""
    return HTMLResponse(HTML, headers={"Content-Security-Policy": POLICY})
