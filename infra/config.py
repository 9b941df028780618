"""RagConfig: the one typed source of everything that must agree in a stack."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from infra import naming
from infra.catalog import (
    EMBEDDING_MODELS,
    VECTORIZE_DIMENSIONS,
    VECTORIZE_METADATA_INDEXES,
    WORKER_CPU_MS,
    EmbeddingModel,
)
from infra.errors import ConfigError
from infra.naming import Names
from infra.sections import (
    Auth,
    Cors,
    Domain,
    Embedding,
    FieldType,
    Mcp,
    MetadataField,
    Model,
    Observability,
    Queue,
    RateLimit,
    Replacing,
    Search,
    Tags,
)
from infra.validation import fault, problems, within

CONFIG_KEY = "cf-rag:rag"
# Raised when the text that is embedded changes its form: stored vectors are then made again.
DOCUMENT_FORMAT_VERSION = 1

RESERVED_FIELDS = frozenset({"id", "rawBody", "title", "body", "content", "tags", "active", "contentHash"})
_FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_TAG_SLOT = re.compile(r"tags_\d+")
_BINDING_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class MetadataIndex(NamedTuple):
    property_name: str
    type: FieldType


class RagConfig(Model):
    """One stack's service, as written under `cf-rag:rag`."""

    name: str
    """Begins the names of all resources of the stack."""
    embedding: Embedding = Embedding()
    replacing: Replacing | None = None
    metadata: dict[str, MetadataField] = Field(default={})
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
    """Takes over what exists under this stack's names, if it fits: see docs/operations/adoption.md."""
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
