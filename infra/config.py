"""RagConfig: the one typed source of everything that must agree in a stack."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from infra import naming
from infra.catalog import (
    EMBEDDING_MODELS,
    QUEUE_CONCURRENCY,
    QUEUE_CONSUMER_BATCH,
    QUEUE_RETENTION_DAYS,
    QUEUE_RETRIES,
    QUEUE_WAIT_SECONDS,
    VECTORIZE_DIMENSIONS,
    VECTORIZE_INDEXED_STRING_BYTES,
    VECTORIZE_METADATA_INDEXES,
    VECTORIZE_TOP_K_WITH_CONTENT,
    WORKER_CPU_MS,
    EmbeddingModel,
)
from infra.errors import ConfigError
from infra.naming import Names
from infra.validation import fault, nearest, problems, within

Metric = Literal["cosine", "euclidean", "dot-product"]
ToolName = Literal["search_docs", "get_doc", "list_docs", "get_stats", "ingest_doc", "delete_doc"]
FieldType = Literal["string", "number", "boolean"]
EnumValue = StrictBool | StrictStr | StrictInt | StrictFloat

CONFIG_KEY = "cf-rag:rag"
# Raised when the text that is embedded changes its form: stored vectors are then made again.
DOCUMENT_FORMAT_VERSION = 1

RESERVED_FIELDS = frozenset({"id", "rawBody", "title", "body", "content", "tags", "active", "contentHash"})
_FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_TAG_SLOT = re.compile(r"tags_\d+")
_BINDING_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
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


class MetadataIndex(NamedTuple):
    property_name: str
    type: FieldType


class RagConfig(Model):
    """One stack's service, as written under `cf-rag:rag`."""

    name: str
    """Begins the names of all resources of the stack."""
    embedding: Embedding = Embedding()
    replacing: Replacing | None = None
    metadata: dict[str, MetadataField] = {}
    """Typed fields of documents, by name."""
    tags: Tags = Tags()
    search: Search = Search()
    auth: Auth = Auth()
    mcp: Mcp = Mcp()
    dashboard: bool = True
    """Whether a page for people is served at `/`."""
    queue: Queue = Queue()
    cors: Cors = Cors()
    docs_public: bool = False
    """Whether `/openapi.json` and `/docs` are served without a key."""
    allow_data_loss: bool = False
    """Lets `pulumi destroy` delete the index and the database, with everything in them."""
    adopt: bool = False
    """Takes over an existing index of the same name, dimensions and metric."""
    inherit_secrets: tuple[str, ...] = ()
    """Secrets of the Worker that are set elsewhere and that a new version keeps."""
    observability: Observability = Observability()
    cpu_ms: Annotated[int, within(WORKER_CPU_MS, "cpuMs", least=10)] | None = None
    """CPU time that one request may use, in ms; left out, the plan's default."""
    rate_limit: RateLimit | None = None
    domain: Domain | None = None
    read_replication: Literal["auto", "disabled"] = "disabled"
    """Read replication of the D1 database."""

    @classmethod
    def from_pulumi(cls, raw: Mapping[str, Any], key: str = CONFIG_KEY) -> Self:
        """The config from the object under `key`. Raises ConfigError naming each key at fault."""
        try:
            return cls.model_validate(raw, by_alias=True, by_name=False)
        except ValidationError as error:
            raise ConfigError(problems(error, cls, key)) from None

    @field_validator("inherit_secrets", mode="before")
    @classmethod
    def _list_to_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @field_validator("name")
    @classmethod
    def _is_label(cls, value: str) -> str:
        if not naming.LABEL.fullmatch(value):
            raise fault(f'"{value}" becomes part of resource names; use a-z, 0-9 and - between them only')
        return value

    @field_validator("inherit_secrets")
    @classmethod
    def _are_binding_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for position, name in enumerate(value):
            if not _BINDING_NAME.fullmatch(name):
                raise fault(f'"{name}" is no binding name; use letters, digits and _', position)
            if name in MANAGED_BINDINGS:
                raise fault(f"{name} is managed by this stack and can't be inherited", position)
        return tuple(sorted(set(value)))

    @field_validator("metadata")
    @classmethod
    def _field_names(cls, value: dict[str, MetadataField]) -> dict[str, MetadataField]:
        for name in value:
            if name in RESERVED_FIELDS or _TAG_SLOT.fullmatch(name):
                raise fault(
                    f"is a reserved name ({', '.join(sorted(RESERVED_FIELDS))}, tags_N); rename it", name
                )
            if not _FIELD_NAME.fullmatch(name):
                raise fault("is no field name; a letter, then letters, digits and _, at most 63", name)
        return value

    @model_validator(mode="after")
    def _check_space(self) -> Self:
        for key, space in (("embedding", self.embedding), ("replacing", self.replacing)):
            if space and (dims := EMBEDDING_MODELS[space.model].dims) > VECTORIZE_DIMENSIONS.value:
                raise fault(VECTORIZE_DIMENSIONS.refusal(f"a vector of {space.model}", dims), key, "model")
        old, new = self.replacing, self.embedding
        if old and old.generation != new.generation - 1:
            raise fault(
                f"is {old.generation}; the generation before embedding.generation, which is {new.generation}",
                "replacing",
                "generation",
            )
        return self

    @model_validator(mode="after")
    def _check_metadata_indexes(self) -> Self:
        names = [index.property_name for index in self.metadata_indexes()]
        if len(names) > VECTORIZE_METADATA_INDEXES.value:
            count = VECTORIZE_METADATA_INDEXES.refusal(f"the index ({', '.join(names)})", len(names))
            raise fault(
                f'{count}; set "filterable: false" on fields, or lower tags.maxPerDocument', "metadata"
            )
        return self

    @model_validator(mode="after")
    def _check_auth(self) -> Self:
        if self.auth.mode == "service":
            for key, on in (("mcp", self.mcp.enabled), ("dashboard", self.dashboard)):
                if on and key in self.model_fields_set:
                    raise fault(
                        'can\'t be on where auth.mode is "service": nothing but /health is served', key
                    )
            if self.domain:
                raise fault('can\'t be set where auth.mode is "service": it has no address', "domain")
        asked = self.mcp.enabled and "enabled" in self.mcp.model_fields_set
        if asked and self.auth.mode == "secret" and not self.mcp.internal_secret:
            raise fault('nobody could log in where auth.mode is "secret": set internalSecret too', "mcp")
        return self

    @property
    def model(self) -> EmbeddingModel:
        return EMBEDDING_MODELS[self.embedding.model]

    @property
    def old_model(self) -> EmbeddingModel | None:
        return EMBEDDING_MODELS[self.replacing.model] if self.replacing else None

    @property
    def serves_http(self) -> bool:
        """Whether anything but /health is answered over HTTP."""
        return self.auth.mode != "service"

    @property
    def serves_mcp(self) -> bool:
        return self.mcp.enabled and (
            self.auth.mode == "keys" or (self.auth.mode == "secret" and self.mcp.internal_secret)
        )

    @property
    def serves_dashboard(self) -> bool:
        return self.dashboard and self.serves_http

    def fingerprint(self) -> str:
        """What the stored vectors depend on; documents with another one are embedded again."""
        return fingerprint(self.model)

    def tag_properties(self) -> tuple[str, ...]:
        return ("tags", *(f"tags_{slot}" for slot in range(1, self.tags.max_per_document)))

    def metadata_indexes(self) -> list[MetadataIndex]:
        """Every metadata index of the vector index, in the order in which they are created."""
        fields = sorted((name, field.type) for name, field in self.metadata.items() if field.filterable)
        return [
            *(MetadataIndex(name, "string") for name in self.tag_properties()),
            MetadataIndex("active", "boolean"),
            *(MetadataIndex(name, kind) for name, kind in fields),
        ]

    def names(self, stack: str) -> Names:
        """Names of the stack's resources. Raises ConfigError for one that Cloudflare would refuse."""
        spaces = [(self.embedding.generation, self.model.dims)]
        if self.replacing and self.old_model:
            spaces.append((self.replacing.generation, self.old_model.dims))
        return naming.compose(self.name, stack, spaces, CONFIG_KEY)


MANAGED_BINDINGS = frozenset(
    {
        "AI",
        "DB",
        "VECTORIZE",
        "VECTORIZE_NEXT",
        "RAG_INGEST_QUEUE",
        "RAG_DLQ",
        "INTERNAL_API_SECRET",
        "INTERNAL_API_SECRET_PREVIOUS",
        "RATE_LIMIT",
        "EMBED_MODEL",
        "EMBED_DIMS",
        "EMBED_GENERATION",
        "EMBED_REPLACING",
        "AUTO_REINDEX_ON_MODEL_CHANGE",
    }
)


def fingerprint(model: EmbeddingModel) -> str:
    """The model by name, and a digest of what else decides: pooling, dims, instruction, format."""
    parts = [model.name, model.pooling, model.dims, model.query_instruction, DOCUMENT_FORMAT_VERSION]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"{model.name}#{digest[:12]}"
