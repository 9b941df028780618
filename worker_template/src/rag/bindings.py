"""What the Worker is bound to, as plain Python: the runtime SDK converts arguments and results."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rag.settings import DIMS, GENERATION, MODEL


class D1Statement(Protocol):
    def bind(self, *params: Any) -> "D1Statement": ...
    async def all(self) -> Mapping[str, Any]: ...


class D1(Protocol):
    def prepare(self, sql: str) -> D1Statement: ...
    async def batch(self, statements: list[D1Statement]) -> list[Mapping[str, Any]]: ...


class Ai(Protocol):
    async def run(self, model: str, inputs: dict[str, Any]) -> Mapping[str, Any]: ...


class Vectorize(Protocol):
    async def query(self, vector: list[float], options: dict[str, Any]) -> Mapping[str, Any]: ...
    async def upsert(self, vectors: list[dict[str, Any]]) -> Mapping[str, Any]: ...
    async def getByIds(self, ids: list[str]) -> list[Mapping[str, Any]]: ...
    async def deleteByIds(self, ids: list[str]) -> Mapping[str, Any]: ...
    async def describe(self) -> Mapping[str, Any]: ...


class Queue(Protocol):
    async def send(self, body: Any, options: dict[str, Any]) -> Any: ...
    async def sendBatch(self, messages: list[dict[str, Any]]) -> Any: ...


@dataclass(frozen=True)
class Replaced:
    """The space that the Worker's own takes over from, while the config says `replacing`."""

    generation: int
    model: str
    dims: int
    metric: str
    strategy: Literal["reindex", "discard"] = "reindex"


@dataclass(frozen=True)
class Vars:
    """The deployment's variables: which vector space this Worker is made for, and who may change it."""

    model: str = MODEL
    dims: int = DIMS
    generation: int = GENERATION
    auto_reindex: bool = True
    replacing: Replaced | None = None


@dataclass(frozen=True)
class Bindings:
    """`vectorize` is the one index; where there is a `vectorize_next`, that of the space being replaced."""

    db: D1
    ai: Ai
    vectorize: Vectorize
    vectorize_next: Vectorize | None = None
    queue: Queue | None = None
    dlq: Queue | None = None
    vars: Vars = Vars()

    @classmethod
    def from_env(cls, env: Any) -> "Bindings":
        """The bindings of a request's `env`; those that a config may leave out are None."""
        return cls(
            db=env.DB,
            ai=env.AI,
            vectorize=env.VECTORIZE,
            vectorize_next=getattr(env, "VECTORIZE_NEXT", None),
            queue=getattr(env, "RAG_INGEST_QUEUE", None),
            dlq=getattr(env, "RAG_DLQ", None),
            vars=_vars(env),
        )

    def index(self, generation: int) -> Vectorize | None:
        """The index of a generation, if this Worker is bound to it."""
        old, own = self.vars.replacing, self.vars.generation
        if self.vectorize_next is None:
            return self.vectorize if generation == own else None
        if old is not None and generation == old.generation:
            return self.vectorize
        return self.vectorize_next if generation == own else None

    def bound(self, generation: int) -> Vectorize:
        """The index of a generation. Raises LookupError where this Worker is not bound to it."""
        index = self.index(generation)
        if index is None:
            raise LookupError(f"no binding for the index of generation {generation}")
        return index


def _vars(env: Any) -> Vars:
    return Vars(
        model=str(getattr(env, "EMBED_MODEL", MODEL)),
        dims=int(getattr(env, "EMBED_DIMS", DIMS)),
        generation=int(getattr(env, "EMBED_GENERATION", GENERATION)),
        auto_reindex=str(getattr(env, "AUTO_REINDEX_ON_MODEL_CHANGE", "true")).lower() == "true",
        replacing=Replaced(**json.loads(old)) if (old := getattr(env, "EMBED_REPLACING", None)) else None,
    )
