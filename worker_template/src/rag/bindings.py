"""What the Worker is bound to, as plain Python: the runtime SDK converts arguments and results."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

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
class Vars:
    """The deployment's variables: which vector space this Worker is made for, and who may change it."""

    model: str = MODEL
    dims: int = DIMS
    generation: int = GENERATION
    auto_reindex: bool = True


@dataclass(frozen=True)
class Bindings:
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


def _vars(env: Any) -> Vars:
    return Vars(
        model=str(getattr(env, "EMBED_MODEL", MODEL)),
        dims=int(getattr(env, "EMBED_DIMS", DIMS)),
        generation=int(getattr(env, "EMBED_GENERATION", GENERATION)),
        auto_reindex=str(getattr(env, "AUTO_REINDEX_ON_MODEL_CHANGE", "true")).lower() == "true",
    )
