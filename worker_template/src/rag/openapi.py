"""The API's description: FastAPI's, with problem details instead of its own errors."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.alias_generators import to_camel

from rag.errors import TYPES
from rag.settings import FINGERPRINT, MODEL

_ABOUT = f"Retrieval by meaning, with vectors of `{MODEL}`. Errors are RFC 9457 problem details."
_NAMED = {"properties", "$defs", "schemas"}
_TAGS = [
    {"name": "documents", "description": "Ingest, read, list and delete documents."},
    {"name": "search", "description": "Find documents by meaning; the state of the service."},
    {"name": "keys", "description": "API keys. Only with the internal secret."},
    {"name": "queue", "description": "Documents to be ingested later. Only with the internal secret."},
    {"name": "backup", "description": "Vectors, out and in again. Only with the internal secret."},
    {"name": "service", "description": "Health."},
]
_REASONS = {
    400: "The body is not JSON",
    401: "No valid token",
    403: "The token lacks the scope",
    404: "Not found",
    409: "Not possible now, possible later",
    413: "Too large",
    415: "Not sent as JSON",
    422: "A value is not acceptable",
    429: "Too many requests",
    502: "A service behind this one failed",
    503: "Not available at the moment",
}


def operation_id(route: APIRoute) -> str:
    """`list_documents` as `listDocuments`."""
    return to_camel(route.name)


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI 3.1 document, made once per isolate."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=_ABOUT,
            routes=app.routes,
            tags=_TAGS,
        )
        document["paths"] = untitled(document["paths"])
        document["components"] = untitled(document["components"])
        _with_problems(document)
        document["info"]["x-embedding"] = FINGERPRINT
        app.openapi_schema = document
    return app.openapi_schema


def untitled(schema: Any) -> Any:
    """A JSON schema without the titles that only repeat the keys."""
    if isinstance(schema, list):
        return [untitled(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "title" or not isinstance(value, str)}
    # Below these are names, and one of them is "title".
    named = {key: {name: untitled(each) for name, each in kept[key].items()} for key in _NAMED & kept.keys()}
    return {key: named[key] if key in named else untitled(value) for key, value in kept.items()}


def _with_problems(document: dict[str, Any]) -> None:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Problem"] = _problem_schema()
    used = set()
    for path in document["paths"].values():
        for operation in path.values():
            used.update(operation.get("tags", []))
            _describe_errors(operation)
    document["tags"] = [tag for tag in document["tags"] if tag["name"] in used]


def _describe_errors(operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    expected = {int(status) for status in responses if status.isdecimal() and int(status) >= 400}
    expected |= {400, 413, 415} if "requestBody" in operation else set()
    expected |= {401, 403, 429} if "security" in operation else set()
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status in sorted(expected):
        responses[str(status)] = {"description": _REASONS[status], "content": content}


def _problem_schema() -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "title": "Problem",
        "type": "object",
        "description": "RFC 9457 problem details. Types: " + ", ".join(f"`{name}`" for name in TYPES),
        "required": ["type", "title", "status", "detail", "requestId"],
        "properties": {
            "type": {**text, "format": "uri"},
            "title": text,
            "status": {"type": "integer"},
            "detail": text,
            "field": {**text, "description": "Path of the value at fault in the request."},
            "limit": {"description": "What would have been accepted."},
            "actual": {"description": "What was found."},
            "requestId": {**text, "description": "Find it in the log."},
        },
    }
