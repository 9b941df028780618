"""The sections of a RagConfig, each with what it accepts."""

import math
import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from infra.catalog import (
    EMBEDDING_MODELS,
    QUEUE_CONCURRENCY,
    QUEUE_CONSUMER_BATCH,
    QUEUE_RETENTION_DAYS,
    QUEUE_RETRIES,
    QUEUE_WAIT_SECONDS,
    VECTORIZE_INDEXED_STRING_BYTES,
    VECTORIZE_TOP_K_WITH_CONTENT,
)
from infra.validation import fault, nearest, within

Metric = Literal["cosine", "euclidean", "dot-product"]
ToolName = Literal["search_docs", "get_doc", "list_docs", "get_stats", "ingest_doc", "delete_doc"]
FieldType = Literal["string", "number", "boolean"]
EnumValue = StrictBool | StrictStr | StrictInt | StrictFloat

_ORIGIN = re.compile(r"\*|https?://[^/\s?#]+")
_HOSTNAME = re.compile(r"(?=.{4,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}")


class Model(BaseModel):
    """Base of the config's parts: camelCase outside, read-only, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        populate_by_name=True,
        # The text below a field is its description: in docs/configuration.md and in editors.
        use_attribute_docstrings=True,
    )


def _known_model(name: str) -> str:
    if name not in EMBEDDING_MODELS:
        raise fault(f'"{name}" is not in the catalog; {nearest(name, EMBEDDING_MODELS)}')
    return name


ModelName = Annotated[str, AfterValidator(_known_model)]


class Embedding(Model):
    """The vector space that documents live in."""

    model: ModelName = "@cf/baai/bge-base-en-v1.5"
    """Model of Workers AI that embeds; it decides the index's dimensions."""
    generation: int = 1
    """Counts the vector spaces of the stack; raise it by one for a new index."""
    metric: Metric = "cosine"
    """How vectors are compared; fixed for the life of an index."""
    auto_reindex: bool = True
    """Whether another model of equal dimensions embeds all documents again; else they keep theirs."""

    @field_validator("generation")
    @classmethod
    def _positive(cls, value: int) -> int:
        if value < 1:
            raise fault(f"is {value}; generations count from 1")
        return value


class Replacing(Model):
    """The space that `embedding` is taking over from; its metric is the new one's unless given."""

    generation: int
    """Generation of the old space: the one before `embedding.generation`."""
    model: ModelName
    """Model that the old space was embedded with."""
    strategy: Literal["reindex", "discard"] = "reindex"
    """`reindex` embeds every document again; `discard` drops them with the old index."""
    metric: Metric | None = None
    """Metric of the old space where it was another one."""


class MetadataField(Model):
    """A typed field that documents may carry, with a metadata index where it is filterable."""

    type: FieldType
    """Type of the values; documents with another one are refused."""
    enum: tuple[EnumValue, ...] | None = None
    """The only values allowed; every value of the type where it is left out."""
    description: str | None = None
    """Shown to people in the API's description and to language models in the MCP tools."""
    filterable: bool = True
    """Whether searches can filter by it; each filterable field takes one metadata index of at most 10."""

    @field_validator("enum", mode="before")
    @classmethod
    def _list_to_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _check_enum(self) -> Self:
        if self.enum is None:
            return self
        if not self.enum:
            raise fault("is empty: leave it out to allow every value", "enum")
        for position, value in enumerate(self.enum):
            self._check_enum_value(position, value)
        if len({(type(value) is bool, value) for value in self.enum}) < len(self.enum):
            raise fault("names a value twice", "enum")
        return self

    def _check_enum_value(self, position: int, value: bool | str | float) -> None:
        if not matches(self.type, value):
            raise fault(f"{value!r} is not a {self.type}, which is the type of the field", "enum", position)
        if self.filterable and isinstance(value, str):
            size, limit = len(value.encode()), VECTORIZE_INDEXED_STRING_BYTES
            if size > limit.value:
                raise fault(limit.refusal(f'the filterable value "{value}"', size), "enum", position)


def matches(field_type: FieldType, value: object) -> bool:
    """Whether a JSON value is of a field's type; NaN and infinities are no numbers."""
    if field_type == "boolean" or isinstance(value, bool):
        return field_type == "boolean" and isinstance(value, bool)
    if field_type == "string":
        return isinstance(value, str)
    return isinstance(value, int | float) and math.isfinite(value)


class Tags(Model):
    """Labels that documents carry besides their fields."""

    max_per_document: int = 2
    """1 to 4; each takes one metadata index."""

    @field_validator("max_per_document")
    @classmethod
    def _one_to_four(cls, value: int) -> int:
        if not 1 <= value <= 4:
            raise fault(f"is {value}; 1 to 4, as each takes one of the metadata indexes of the index")
        return value


TopK = Annotated[int, within(VECTORIZE_TOP_K_WITH_CONTENT, "topK")]


class Search(Model):
    """How many hits a search gives."""

    default_top_k: TopK = 10
    """Hits of a search that doesn't say how many."""
    max_top_k: TopK = 50
    """Most hits that a search may ask for; Vectorize gives at most 50 with their content."""

    @model_validator(mode="after")
    def _default_in_range(self) -> Self:
        if self.default_top_k > self.max_top_k:
            raise fault(f"is {self.default_top_k}, over maxTopK = {self.max_top_k}", "defaultTopK")
        return self


class Auth(Model):
    """Who may call the service."""

    mode: Literal["keys", "secret", "service"] = "keys"
    """`keys`: API keys and the internal secret; `secret`: that alone; `service`: no API over HTTP."""


class Mcp(Model):
    """The MCP server."""

    enabled: bool = True
    """Whether `/mcp` is served."""
    internal_secret: bool = False
    """Whether the internal secret is taken on `/mcp`."""
    description: str | None = None
    """What the documents are about; read by language models."""
    tools: dict[ToolName, str] = {}
    """Descriptions of tools by name, in place of the built-in ones."""
    authorization_servers: tuple[str, ...] = ()
    """Issuers announced to clients (RFC 9728), where something in front turns their tokens into keys."""

    @field_validator("authorization_servers", mode="before")
    @classmethod
    def _list_to_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("authorization_servers")
    @classmethod
    def _are_https(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for position, issuer in enumerate(value):
            if not issuer.startswith("https://"):
                raise fault(f'"{issuer}" is no issuer; write it as https://...', position)
        return value


class Queue(Model):
    """The ingest queue, its consumer, and its dead letters."""

    batch_size: Annotated[int, within(QUEUE_CONSUMER_BATCH, "batchSize")] = 10
    """Most messages that the consumer is given at once."""
    max_retries: Annotated[int, within(QUEUE_RETRIES, "maxRetries", least=0)] = 5
    """Tries after the first one; then a message goes to the dead-letter queue."""
    max_wait_seconds: Annotated[int, within(QUEUE_WAIT_SECONDS, "maxWaitSeconds", least=0)] = 5
    """How long a batch waits to fill up, in seconds."""
    max_concurrency: Annotated[int, within(QUEUE_CONCURRENCY, "maxConcurrency")] | None = None
    """Most consumers at once; left out, Cloudflare decides."""
    dead_letter_days: Annotated[int, within(QUEUE_RETENTION_DAYS, "deadLetterDays")] = 14
    """How long dead letters are kept (Workers Free: 1)."""


class Cors(Model):
    """Origins whose browsers may call the API; none by default."""

    origins: tuple[str, ...] = ()
    """`*`, or origins such as `https://app.example.com`."""

    @field_validator("origins", mode="before")
    @classmethod
    def _list_to_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("origins")
    @classmethod
    def _are_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for position, origin in enumerate(value):
            if not _ORIGIN.fullmatch(origin):
                raise fault(f'"{origin}" is no origin; write "*" or "https://host", without a path', position)
        return value


class Observability(Model):
    """Logs of the Worker."""

    enabled: bool = True
    """Whether Workers Logs keep the Worker's logs."""
    head_sampling_rate: float = 1.0
    """Share of the requests that is logged, from 0 to 1."""

    @field_validator("head_sampling_rate")
    @classmethod
    def _is_share(cls, value: float) -> float:
        if not 0 <= value <= 1:
            raise fault(f"is {value}; a share from 0 to 1")
        return value


class RateLimit(Model):
    """Requests per client and period; Cloudflare counts per location, in 10 s or 60 s."""

    limit: int
    """Requests in a period."""
    period: Literal[10, 60] = 60
    """Seconds."""

    @field_validator("limit")
    @classmethod
    def _positive(cls, value: int) -> int:
        if value < 1:
            raise fault(f"is {value}; at least 1")
        return value


class Domain(Model):
    """A custom domain in a zone of the account."""

    hostname: str
    """Host name, such as `rag.example.com`."""
    zone_id: str
    """The zone's id."""

    @field_validator("hostname")
    @classmethod
    def _is_hostname(cls, value: str) -> str:
        if not _HOSTNAME.fullmatch(value):
            raise fault(f'"{value}" is no host name; write it like "rag.example.com"')
        return value
