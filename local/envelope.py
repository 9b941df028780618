"""The envelope of Cloudflare's v4 API: every answer, good or bad, has this one shape."""

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse as SlowJSONResponse

JsonObject = dict[str, Any]


class JSONResponse(SlowJSONResponse):
    """An answer as JSON, written fast: most of what is answered are vectors."""

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


class ApiError(Exception):
    """A refusal as Cloudflare words it: HTTP status, numeric code, message."""

    def __init__(
        self, status: int, code: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})


def ok(result: Any, status: int = 200, result_info: JsonObject | None = None) -> JSONResponse:
    """`result` in a success envelope; `result_info` only where Cloudflare pages."""
    body: JsonObject = {"success": True, "errors": [], "messages": [], "result": result}
    if result_info is not None:
        body["result_info"] = result_info
    return JSONResponse(body, status)


def failed(error: ApiError) -> JSONResponse:
    """`error` in a failure envelope."""
    body = {
        "success": False,
        "errors": [{"code": error.code, "message": error.message}],
        "messages": [],
        "result": None,
    }
    return JSONResponse(body, error.status, headers=error.headers)


async def on_api_error(_: Request, error: Exception) -> JSONResponse:
    """Starlette exception handler for `ApiError`."""
    assert isinstance(error, ApiError)
    return failed(error)
