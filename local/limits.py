"""What the local Cloudflare refuses, and with which code: one table for REST and for bindings.

The numbers are those of `infra.catalog`. Codes and wording are Cloudflare's own where they have
been seen (3000, 3002, 3005, 40005-40008, 40016, 40023, 40025, 40026, 5006, 5007, 5021, 10203-10208, 10250,
11000, 11004, 100127, 0 for pulling without HTTP pull); the rest reuses the nearest of them.
"""

from typing import Any, NamedTuple

from infra import catalog
from infra.catalog import Limit
from local.envelope import ApiError

# Queues adds its own header to each message, and it counts: about 100 bytes.
QUEUE_OVERHEAD_BYTES = 100


class Refusal(NamedTuple):
    """One refusal: HTTP status, code, message template and the limit behind it, if a number is one."""

    status: int
    code: int
    text: str
    limit: Limit | None = None

    def __call__(self, **values: Any) -> ApiError:
        """The error to raise; `values` fill the template, `limit` is filled in here."""
        if self.limit is not None:
            values["limit"] = self.limit.value
        return ApiError(self.status, self.code, self.text.format(**values))


INDEX_NOT_FOUND = Refusal(404, 3000, 'vectorize.index.not_found - Index name "{name}"')
INDEX_DUPLICATE = Refusal(400, 3002, 'vectorize.index.duplicate_name - Index name "{name}"')
INDEX_GONE = Refusal(410, 3005, 'vectorize.index.deleted - Index name "{name}"')
INDEX_CONFIG = Refusal(400, 3001, "vectorize.index.invalid_config - {problem}")
INDEX_DIMENSIONS = Refusal(
    400,
    3001,
    "vectorize.index.invalid_config - dimensions must be between 1 and {limit}, got {actual}",
    catalog.VECTORIZE_DIMENSIONS,
)
INDEX_NAME = Refusal(
    400,
    3001,
    "vectorize.index.invalid_name - index name too long; max is {limit} bytes, got {actual} bytes",
    catalog.VECTORIZE_INDEX_NAME_BYTES,
)

METADATA_INDEX_COUNT = Refusal(
    400,
    40005,
    "too many metadata indexes; max metadata index count is {limit}",
    catalog.VECTORIZE_METADATA_INDEXES,
)
METADATA_INDEX_MISSING = Refusal(400, 40005, 'metadata index for property "{name}" does not exist')
METADATA_INDEX_TYPE = Refusal(400, 40005, 'metadata index for property "{name}" exists with type {type}')

QUERY_DIMENSIONS = Refusal(
    400, 40006, "invalid query vector, expected {expected} dimensions, and got {actual} dimensions"
)
VECTOR_DIMENSIONS = Refusal(
    400,
    40006,
    'invalid vector for id="{id}", expected {expected} dimensions, and got {actual} dimensions',
)
_IDS = "too many ids in payload; max id count is {limit}, got {actual}"
GET_IDS = Refusal(400, 40007, _IDS, catalog.VECTORIZE_GET_IDS)
DELETE_IDS = Refusal(400, 40007, _IDS, catalog.VECTORIZE_DELETE_IDS)
_VECTORS = "too many vectors in payload; max vector count is {limit}, got {actual}"
UPSERT_BINDING = Refusal(400, 40007, _VECTORS, catalog.VECTORIZE_UPSERT_BINDING)
UPSERT_REST = Refusal(400, 40007, _VECTORS, catalog.VECTORIZE_UPSERT_REST)
UPLOAD_BYTES = Refusal(
    413, 40007, "payload too large; max is {limit} bytes, got {actual} bytes", catalog.VECTORIZE_UPLOAD_BYTES
)
VECTOR_ID = Refusal(
    400, 40008, "id too long; max is {limit} bytes, got {actual} bytes", catalog.VECTORIZE_ID_BYTES
)
NAMESPACE = Refusal(
    400,
    40008,
    "namespace too long; max is {limit} bytes, got {actual} bytes",
    catalog.VECTORIZE_NAMESPACE_BYTES,
)
METADATA_BYTES = Refusal(
    400,
    40016,
    'metadata too large for id="{id}"; max is {limit} bytes, got {actual} bytes',
    catalog.VECTORIZE_METADATA_BYTES,
)
VECTORS_UNPARSABLE = Refusal(400, 40023, "failed to parse {op} vectors request: {problem}")
_TOP_K = "max top K is {limit}, but got {actual}"
TOP_K = Refusal(400, 40025, _TOP_K, catalog.VECTORIZE_TOP_K)
TOP_K_WITH_CONTENT = Refusal(
    400,
    40025,
    f"with returnValues=true or returnMetadata=all, {_TOP_K}; "
    "for a top K up to 100, retry with returnValues=false and returnMetadata=indexed",
    catalog.VECTORIZE_TOP_K_WITH_CONTENT,
)
JSON_EXPECTED = Refusal(400, 40026, "Expected request with `Content-Type: application/json`")
JSON_UNPARSABLE = Refusal(400, 40026, "Failed to parse the request body as JSON: {problem}")
FILTER_BYTES = Refusal(
    400,
    40026,
    "Failed to parse the request body as JSON: filter: must be less than {limit} bytes, got {actual} bytes",
    catalog.VECTORIZE_FILTER_BYTES,
)
LIST_COUNT = Refusal(
    400, 40026, "count must be between 1 and {limit}, got {actual}", catalog.VECTORIZE_LIST_COUNT
)
LIST_CURSOR = Refusal(400, 40026, "cursor is invalid or has expired; list from the start")
QUERY_ID_UNKNOWN = Refusal(400, 40009, 'vector with id="{id}" does not exist')

QUEUE_NOT_FOUND = Refusal(404, 11000, 'Queue "{name}" does not exist')
QUEUE_DUPLICATE = Refusal(409, 11009, 'Queue name "{name}" is already taken')
QUEUE_NAME = Refusal(
    400,
    11003,
    'Queue name "{name}" is not valid: 1-{limit} characters, letters, digits and "-"',
    catalog.RESOURCE_NAME_CHARS,
)
CONSUMER_EXISTS = Refusal(409, 11004, 'Queue "{name}" already has a consumer')
CONSUMER_NOT_FOUND = Refusal(404, 11005, 'Consumer "{id}" does not exist')
CONSUMER_SETTINGS = Refusal(400, 100127, "Invalid consumer settings: {problem}")
QUEUE_SETTINGS = Refusal(400, 100128, "Invalid queue settings: {problem}")
PULL_DISABLED = Refusal(405, 0, "messages cannot be pulled unless http_pull mode is enabled")
MESSAGE_INVALID = Refusal(400, 10203, "Invalid message: {problem}")
MESSAGE_BYTES = Refusal(
    413, 10204, "message length of {actual} bytes exceeds limit of {limit}", catalog.QUEUE_MESSAGE_BYTES
)
SEND_BATCH_BYTES = Refusal(
    413, 10205, "batch size of {actual} bytes exceeds limit of {limit}", catalog.QUEUE_SEND_BATCH_BYTES
)
SEND_BATCH_COUNT = Refusal(
    400, 10206, "batch message count of {actual} exceeds limit of {limit}", catalog.QUEUE_SEND_BATCH
)
QUEUE_BODY = Refusal(400, 10207, "Request body does not match the schema: {problem}")
QUEUE_JSON = Refusal(400, 10208, "Request body is not valid JSON")
