"""The MCP server: JSON-RPC messages of three protocol versions, each answered on its own."""

import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import mcp_types as mcp
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from rag import logs
from rag.auth import Caller
from rag.bindings import Bindings
from rag.body import parse_json
from rag.edge import problem_of
from rag.envelope import MODERN, SUPPORTED, McpError, check_modern, version_of
from rag.errors import Problem
from rag.settings import MCP_DESCRIPTION, NAME
from rag.tools import TOOLS, Tool, description

Headers = Iterable[tuple[bytes, bytes]]
_HANDSHAKE = [version for version in SUPPORTED if version != MODERN]
_SERVER = {"name": NAME, "version": "1"}
# What the newest version says about its errors; the older ones answer 200 to a request that can be read.
_STATUS = {
    mcp.PARSE_ERROR: 400,
    mcp.INVALID_REQUEST: 400,
    mcp.INVALID_PARAMS: 400,
    mcp.HEADER_MISMATCH: 400,
    mcp.UNSUPPORTED_PROTOCOL_VERSION: 400,
    mcp.METHOD_NOT_FOUND: 404,
}
_INSTRUCTIONS = (
    "Search first, with full questions in natural language, and answer from what was found, naming the ids "
    "of the documents that you used."
)


@dataclass(frozen=True)
class Call:
    """One request with what is needed to answer it."""

    method: str
    params: dict[str, Any]
    version: str
    caller: Caller
    env: Bindings


Method = Callable[[Call], Awaitable[BaseModel]]


async def answer(headers: Headers, body: bytes, caller: Caller, env: Bindings) -> Response:
    """The HTTP answer to one POST: a JSON-RPC response, or 202 for what needs none."""
    headers = list(headers)
    message: dict[str, Any] = {}
    try:
        message = _message(body)
        version = version_of(headers, message)
    except McpError as error:
        return _failed(_id(message), error, 400)
    if "method" in message and "id" not in message:
        return _notified(message)
    if "method" not in message and version != MODERN:
        return Response(status_code=202)  # An answer of the client's: nothing was asked.
    try:
        request = mcp.JSONRPCRequest.model_validate(message)
    except ValidationError:
        return _failed(None, McpError(mcp.INVALID_REQUEST, "this is no JSON-RPC request"), 400)
    return await _responded(request, headers, version, caller, env)


def _id(message: dict[str, Any]) -> int | str | None:
    given = message.get("id")
    return given if isinstance(given, int | str) and not isinstance(given, bool) else None


def _message(body: bytes) -> dict[str, Any]:
    try:
        message = parse_json(body)
    except Problem as problem:
        raise McpError(mcp.PARSE_ERROR, problem.detail) from None
    if not isinstance(message, dict):
        raise McpError(mcp.INVALID_REQUEST, "send one JSON-RPC message, no batch")
    return message


def _notified(message: dict[str, Any]) -> Response:
    try:
        mcp.JSONRPCNotification.model_validate(message)
    except ValidationError:
        return _failed(None, McpError(mcp.INVALID_REQUEST, "this is no JSON-RPC notification"), 400)
    return Response(status_code=202)


async def _responded(
    request: mcp.JSONRPCRequest,
    headers: list[tuple[bytes, bytes]],
    version: str,
    caller: Caller,
    env: Bindings,
) -> Response:
    try:
        if version == MODERN:
            check_modern(headers, request)
        params = request.params or {}
        result = await _dispatch(Call(request.method, params, version, caller, env))
    except McpError as error:
        status = _STATUS.get(error.code, 200) if version == MODERN else 200
        return _failed(request.id, error, status)
    shown = {"jsonrpc": "2.0", "id": request.id, "result": _of_version(result, version)}
    return _json(shown)


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(content), status, media_type="application/json")


def _failed(request_id: Any, error: McpError, status: int) -> Response:
    return _json({"jsonrpc": "2.0", "id": request_id, "error": error.to_dict()}, status)


def _of_version(result: BaseModel, version: str) -> dict[str, Any]:
    """The result as its version writes it: the newest marks it complete and says who answered."""
    shown = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    if version != MODERN:
        return {
            key: value for key, value in shown.items() if key not in ("resultType", "ttlMs", "cacheScope")
        }
    meta = {**shown.get("_meta", {}), mcp.SERVER_INFO_META_KEY: _SERVER}
    return {"resultType": "complete", **shown, "_meta": meta}


async def _dispatch(call: Call) -> BaseModel:
    methods = _MODERN_METHODS if call.version == MODERN else _HANDSHAKE_METHODS
    if call.method not in methods:
        raise McpError(mcp.METHOD_NOT_FOUND, f"there is no method {call.method[:100]!r}")
    return await methods[call.method](call)


def _checked(model: type[BaseModel], params: dict[str, Any]) -> Any:
    try:
        return model.model_validate(params, by_name=False)
    except ValidationError as error:
        where = ", ".join(".".join(map(str, each["loc"])) for each in error.errors(include_url=False)[:5])
        raise McpError(mcp.INVALID_PARAMS, f"params do not fit the method: {where}"[:500]) from None


async def _initialize(call: Call) -> BaseModel:
    params = _checked(mcp.InitializeRequestParams, call.params)
    wanted = params.protocol_version
    return mcp.InitializeResult(
        protocol_version=wanted if wanted in _HANDSHAKE else _HANDSHAKE[-1],
        capabilities=mcp.ServerCapabilities(tools=mcp.ToolsCapability()),
        server_info=mcp.Implementation.model_validate(_SERVER),
        instructions=_instructions(),
    )


async def _discover(_: Call) -> BaseModel:
    return mcp.DiscoverResult(
        supported_versions=[MODERN],
        capabilities=mcp.ServerCapabilities(tools=mcp.ToolsCapability()),
        instructions=_instructions(),
    )


def _instructions() -> str:
    return f"{MCP_DESCRIPTION} {_INSTRUCTIONS}" if MCP_DESCRIPTION else _INSTRUCTIONS


async def _ping(_: Call) -> BaseModel:
    return mcp.EmptyResult()


async def _list_tools(call: Call) -> BaseModel:
    params = _checked(mcp.PaginatedRequestParams, call.params)
    if params.cursor is not None:
        raise McpError(mcp.INVALID_PARAMS, "there is one page of tools: no cursor is valid")
    offered = [tool for tool in TOOLS.values() if tool.scope in call.caller.scopes]
    return mcp.ListToolsResult(tools=[_declared(tool) for tool in offered])


@cache
def _declared(tool: Tool) -> mcp.Tool:
    return mcp.Tool(
        name=tool.name,
        title=tool.title,
        description=description(tool),
        input_schema=tool.input_schema(),
        output_schema=tool.output_schema(),
        annotations=mcp.ToolAnnotations(
            read_only_hint=tool.scope == "read",
            destructive_hint=tool.destructive,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


async def _call_tool(call: Call) -> BaseModel:
    params = _checked(mcp.CallToolRequestParams, call.params)
    tool = TOOLS.get(params.name)
    if tool is None:
        raise McpError(
            mcp.INVALID_PARAMS, f"there is no tool {params.name[:100]!r}; there are {', '.join(TOOLS)}"
        )
    try:
        if tool.scope not in call.caller.scopes:
            raise Problem("forbidden", f'{tool.name} needs a key with the scope "{tool.scope}"')
        result = await tool.run(call.env, tool.takes.model_validate(params.arguments or {}))
    except Exception as error:  # noqa: BLE001 - whatever a tool throws is its answer
        return _tool_error(error)
    shown = result.model_dump(mode="json", by_alias=True)
    text = mcp.TextContent(type="text", text=json.dumps(shown, ensure_ascii=False))
    return mcp.CallToolResult(content=[text], structured_content=shown)


def _tool_error(error: Exception) -> mcp.CallToolResult:
    """A failure as a result, for the model to read and do better."""
    problem = problem_of(error)
    if problem.type == "internal":
        logs.log_exception("unexpected error", error)
    shown = json.dumps(problem.to_dict(logs.request_id.get()), ensure_ascii=False)
    return mcp.CallToolResult(content=[mcp.TextContent(type="text", text=shown)], is_error=True)


_TOOLS: dict[str, Method] = {"tools/list": _list_tools, "tools/call": _call_tool}
_MODERN_METHODS: dict[str, Method] = {**_TOOLS, "server/discover": _discover}
_HANDSHAKE_METHODS: dict[str, Method] = {**_TOOLS, "initialize": _initialize, "ping": _ping}
