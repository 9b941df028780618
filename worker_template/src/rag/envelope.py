"""What surrounds an MCP message over HTTP: its protocol version, and headers that repeat its body."""

import base64
import binascii
import re
from typing import Any

import mcp_types as mcp

SUPPORTED = ["2025-06-18", "2025-11-25", "2026-07-28"]
# The one without a handshake: each request carries what `initialize` once agreed on.
MODERN = "2026-07-28"
_OLDEST = SUPPORTED[0]
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_REQUIRED = (mcp.PROTOCOL_VERSION_META_KEY, mcp.CLIENT_CAPABILITIES_META_KEY)
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")

HeaderLines = list[tuple[bytes, bytes]]


class McpError(Exception):
    """A JSON-RPC error: the message itself is at fault, not what a tool did."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def to_dict(self) -> dict[str, Any]:
        error = {"code": self.code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


def header(headers: HeaderLines, name: str) -> str | None:
    """A header's value. Raises McpError where it comes twice: two readers could take different ones."""
    values = [value for key, value in headers if key == name.encode()]
    if len(values) > 1:
        raise McpError(mcp.HEADER_MISMATCH, f"the header {name} comes more than once")
    return values[0].decode("latin-1") if values else None


def version_of(headers: HeaderLines, message: dict[str, Any]) -> str:
    """The version that the message is in. Raises McpError for one that is not spoken here."""
    version = header(headers, "mcp-protocol-version")
    if version is None:
        # Clients of the older versions send none with `initialize`, and some never do.
        return MODERN if mcp.PROTOCOL_VERSION_META_KEY in _meta(message) else _OLDEST
    if version not in SUPPORTED:
        # The list of `server/discover`: who reads this one speaks the newest, or begins a handshake.
        data = {"supported": [MODERN], "requested": version[:100]}
        raise McpError(mcp.UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version", data)
    return version


def _meta(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def check_modern(headers: HeaderLines, request: mcp.JSONRPCRequest) -> None:
    """Raises McpError where a request lacks its envelope, or where headers and body disagree."""
    meta = _meta({"params": request.params})
    if missing := [key for key in _REQUIRED if key not in meta]:
        raise McpError(mcp.INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}")
    _agree(headers, "mcp-protocol-version", meta[mcp.PROTOCOL_VERSION_META_KEY])
    _agree(headers, "mcp-method", request.method)
    key = _NAMED.get(request.method)
    if key is not None and (value := (request.params or {}).get(key)) is not None:
        _agree(headers, "mcp-name", value)


def _agree(headers: HeaderLines, name: str, value: Any) -> None:
    if _decoded(header(headers, name)) != value:
        raise McpError(mcp.HEADER_MISMATCH, f"the header {name} does not say what the body says")


def _decoded(value: str | None) -> str | None:
    """A header's text; what is no printable ASCII comes in base64. None if that is malformed."""
    match = _ENCODED.fullmatch(value or "")
    if match is None:
        return value
    try:
        decoded = base64.b64decode(match[1], validate=True)
        # Only the one canonical form, so that nothing else can stand for the same text.
        return decoded.decode() if base64.b64encode(decoded).decode() == match[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None
