"""What every route needs: the bindings of its environment, and a way to answer."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from rag.bindings import Bindings
from rag.body import ApiRoute


async def _bindings(request: Request) -> Bindings:
    return Bindings.from_env(request.scope["env"])


Env = Annotated[Bindings, Depends(_bindings)]


def router(tag: str) -> APIRouter:
    """A router whose routes ask for credentials first and read JSON strictly."""
    return APIRouter(tags=[tag], route_class=ApiRoute)


def reply(model: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """The model as JSON; the route's `response_model` only describes it."""
    return Response(model.model_dump_json(by_alias=True), status, headers, media_type="application/json")


def request_id(request: Request) -> str:
    """The id under which the log has this request."""
    return str(request.scope["rag.requestId"])


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route answers with, for the API's description."""
    return {status: {"description": "Problem"} for status in statuses}
