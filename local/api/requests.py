"""What every handler reads from a request: a JSON object, a page."""

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from local.envelope import ApiError, JsonObject, ok

MAX_PER_PAGE = 1000


async def json_object(request: Request) -> JsonObject:
    """The body as a JSON object; 400 as Cloudflare gives it for anything else."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise ApiError(415, 10006, "The content type of the request must be application/json.")
    try:
        body = json.loads(await request.body())
    except ValueError as error:
        raise ApiError(400, 6007, f"Malformed JSON in request body: {error}") from error
    if not isinstance(body, dict):
        raise ApiError(400, 6007, "Malformed JSON in request body: an object is expected.")
    return body


def text(body: JsonObject, key: str, code: int, *, default: str | None = None) -> str:
    """A string member of the body, refused with `code` where it is missing or something else."""
    value = body.get(key, default)
    if not isinstance(value, str) or not value:
        raise ApiError(400, code, f"{key} is required and must be a string.")
    return value


def page(request: Request, items: list[Any]) -> JSONResponse:
    """The asked-for page of `items`; past the end it is empty, which is where SDKs stop."""
    number = _number(request, "page", 1)
    size = min(_number(request, "per_page", 100), MAX_PER_PAGE)
    shown = items[(number - 1) * size : number * size]
    return ok(shown, result_info=page_info(number, size, len(shown), len(items)))


def page_info(number: int, size: int, count: int, total: int) -> JsonObject:
    return {
        "page": number,
        "per_page": size,
        "count": count,
        "total_count": total,
        "total_pages": -(-total // size),
    }


def _number(request: Request, key: str, default: int) -> int:
    try:
        value = int(float(request.query_params.get(key, default)))
    except ValueError:
        value = 0
    if value < 1:
        raise ApiError(400, 6003, f"{key} must be a positive number.")
    return value
