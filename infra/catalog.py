"""Embedding models and platform limits: dated, each with its source."""

from typing import Literal, NamedTuple

_DOCS = "developers.cloudflare.com"
_MODELS = f"{_DOCS}/ai/models"


class EmbeddingModel(NamedTuple):
    """One text embedding model of Workers AI and what a caller must know about it.

    `max_input_tokens` counts one text, `max_request_tokens` all texts of a request together;
    `max_batch` counts texts. `query_instruction` goes into the `instruction` input where
    `query_key` is "queries", and in front of the query's text otherwise.
    """

    name: str
    dims: int
    pooling: str | None
    max_input_tokens: int
    max_batch: int
    max_request_tokens: int | None
    document_key: Literal["text", "documents"]
    query_key: Literal["text", "queries"]
    query_instruction: str | None
    price_per_million_tokens: float | None
    source: str
    as_of: str


def _bge(size: str, dims: int, price: float | None) -> EmbeddingModel:
    name = f"@cf/baai/bge-{size}-en-v1.5"
    # cls is what these models were trained with; vectors of cls and mean don't mix.
    return EmbeddingModel(
        name, dims, "cls", 512, 100, 153_600, "text", "text", None, price, f"{_MODELS}/{name}", "2026-11-30"
    )


_M3 = "@cf/baai/bge-m3"
_QWEN = "@cf/qwen/qwen3-embedding-0.6b"
_GEMMA = "@cf/google/embeddinggemma-300m"
_PLAMO = "@cf/pfnet/plamo-embedding-1b"

EMBEDDING_MODELS: dict[str, EmbeddingModel] = {
    model.name: model
    for model in (
        _bge("small", 384, 0.020),
        _bge("base", 768, 0.067),
        _bge("large", 1024, 0.204),
        EmbeddingModel(
            _M3, 1024, None, 8192, 100, 60_000, "text", "text", None, 0.0118, f"{_MODELS}/{_M3}", "2026-11-30"
        ),
        EmbeddingModel(
            name=_QWEN,
            dims=1024,
            pooling=None,
            max_input_tokens=8192,
            max_batch=32,
            max_request_tokens=None,
            document_key="documents",
            query_key="queries",
            query_instruction="Given a web search query, retrieve relevant passages that answer the query",
            price_per_million_tokens=0.012,
            source=f"{_MODELS}/{_QWEN}",
            as_of="2026-11-30",
        ),
        EmbeddingModel(
            name=_GEMMA,
            dims=768,
            pooling=None,
            max_input_tokens=2048,
            max_batch=100,
            max_request_tokens=None,
            document_key="text",
            query_key="text",
            query_instruction="task: search result | query: ",
            price_per_million_tokens=None,
            source=f"{_MODELS}/{_GEMMA}",
            as_of="2026-11-30",
        ),
        # Known, so that choosing it is answered with the reason: its vectors don't fit into Vectorize.
        EmbeddingModel(
            _PLAMO,
            2048,
            None,
            4096,
            100,
            None,
            "text",
            "text",
            None,
            0.0186,
            f"{_MODELS}/{_PLAMO}",
            "2026-11-30",
        ),
    )
}


class Limit(NamedTuple):
    """A limit of the platform: the largest value that is accepted."""

    value: int
    unit: str
    source: str
    as_of: str

    def refusal(self, what: str, actual: int) -> str:
        """A sentence for a value over the limit: what it is, its size, the limit, where that is from."""
        source = f"{self.source}, as of {self.as_of}"
        return f"{what} is {actual:,} {self.unit}; at most {self.value:,} allowed ({source})"


_VECTORIZE = f"{_DOCS}/vectorize/platform/limits"
_FILTERS = f"{_DOCS}/vectorize/reference/metadata-filtering"
# Not in the documentation: the API's own error 40007.
_ERROR_40007 = "Vectorize API, error 40007"

VECTORIZE_DIMENSIONS = Limit(1536, "dimensions", _VECTORIZE, "2026-11-30")
VECTORIZE_ID_BYTES = Limit(64, "bytes", _VECTORIZE, "2026-11-30")
VECTORIZE_INDEX_NAME_BYTES = Limit(64, "bytes", _VECTORIZE, "2026-11-30")
VECTORIZE_METADATA_BYTES = Limit(10 * 1024, "bytes", _VECTORIZE, "2026-11-30")
VECTORIZE_METADATA_INDEXES = Limit(10, "metadata indexes", _VECTORIZE, "2026-11-30")
VECTORIZE_INDEXED_STRING_BYTES = Limit(64, "bytes", _VECTORIZE, "2026-11-30")
VECTORIZE_TOP_K = Limit(100, "matches", _VECTORIZE, "2026-11-30")
VECTORIZE_TOP_K_WITH_CONTENT = Limit(50, "matches", _VECTORIZE, "2026-03-16")
VECTORIZE_UPSERT_BINDING = Limit(1000, "vectors", _VECTORIZE, "2026-11-30")
VECTORIZE_UPSERT_REST = Limit(5000, "vectors", _VECTORIZE, "2026-11-30")
VECTORIZE_GET_IDS = Limit(20, "ids", _ERROR_40007, "2026-11-30")
VECTORIZE_DELETE_IDS = Limit(100, "ids", _ERROR_40007, "2026-11-30")
VECTORIZE_FILTER_BYTES = Limit(2048, "bytes", _FILTERS, "2026-11-30")
VECTORIZE_FILTER_KEY_CHARS = Limit(512, "characters", _FILTERS, "2026-11-30")
VECTORIZE_NAMESPACE_BYTES = Limit(64, "bytes", _VECTORIZE, "2026-11-30")
VECTORIZE_UPLOAD_BYTES = Limit(100_000_000, "bytes", _VECTORIZE, "2026-11-30")
VECTORIZE_LIST_COUNT = Limit(1000, "ids", f"{_DOCS}/vectorize/best-practices/list-vectors", "2025-08-25")

# Per account, on Workers Paid and Free.
VECTORIZE_INDEXES = Limit(50_000, "indexes", _VECTORIZE, "2026-11-30")
VECTORIZE_INDEXES_FREE = Limit(100, "indexes", _VECTORIZE, "2026-11-30")

_D1 = f"{_DOCS}/d1/platform/limits"

D1_PARAMS = Limit(100, "bound parameters", _D1, "2026-11-30")
D1_SQL_BYTES = Limit(100_000, "bytes", _D1, "2026-11-30")
D1_ROW_BYTES = Limit(2_000_000, "bytes", _D1, "2026-11-30")
D1_COLUMNS = Limit(100, "columns", _D1, "2026-11-30")
D1_LIKE_BYTES = Limit(50, "bytes", _D1, "2026-11-30")
D1_DATABASES = Limit(50_000, "databases", _D1, "2026-11-30")
D1_DATABASES_FREE = Limit(10, "databases", _D1, "2026-11-30")

_QUEUES = f"{_DOCS}/queues/platform/limits"

QUEUE_MESSAGE_BYTES = Limit(128_000, "bytes", _QUEUES, "2026-11-30")
QUEUE_SEND_BATCH = Limit(100, "messages", _QUEUES, "2026-11-30")
QUEUE_SEND_BATCH_BYTES = Limit(256_000, "bytes", _QUEUES, "2026-11-30")
QUEUE_CONSUMER_BATCH = Limit(100, "messages", _QUEUES, "2026-11-30")
QUEUE_RETRIES = Limit(100, "retries", _QUEUES, "2026-11-30")
QUEUE_WAIT_SECONDS = Limit(60, "seconds", _QUEUES, "2026-11-30")
# On Workers Free a message is kept for one day at most.
QUEUE_RETENTION_DAYS = Limit(14, "days", _QUEUES, "2026-11-30")
QUEUES_PER_ACCOUNT = Limit(10_000, "queues", _QUEUES, "2026-11-30")
QUEUE_CONCURRENCY = Limit(250, "consumers", _QUEUES, "2026-11-30")

_WORKERS = f"{_DOCS}/workers/platform/limits"

# The smallest of the limits in force: larger ones depend on the plan and are still being rolled out.
WORKER_GZIP_BYTES = Limit(3 * 1024 * 1024, "bytes gzipped", _WORKERS, "2026-07-24")
WORKER_ENV_VARS = Limit(64, "variables", _WORKERS, "2026-11-30")
WORKER_ENV_VAR_BYTES = Limit(5_000, "bytes", _WORKERS, "2026-11-30")
WORKER_CPU_MS = Limit(300_000, "ms", _WORKERS, "2026-11-30")
API_CALLS_PER_5_MIN = Limit(
    1200, "calls per 5 minutes", f"{_DOCS}/fundamentals/api/reference/limits", "2026-11-30"
)
# A Worker's name is a DNS label of its workers.dev address.
RESOURCE_NAME_CHARS = Limit(
    63, "characters", f"{_DOCS}/workers/configuration/routing/workers-dev", "2026-11-30"
)
