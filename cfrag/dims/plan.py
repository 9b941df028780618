"""What a replacement would cost, from the catalog's prices and a sample of the stored texts."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cfrag.stack_account import StackAccount
from infra.catalog import VECTORIZE_GET_IDS, EmbeddingModel
from infra.config import RagConfig

if TYPE_CHECKING:
    from cloudflare import Cloudflare

SAMPLE = 5 * VECTORIZE_GET_IDS.value
CHARACTERS_PER_TOKEN = 4
"""Of English prose, as the models' vendors say; other languages take more tokens."""
_IDS = "SELECT id FROM documents WHERE deleted_at IS NULL ORDER BY RANDOM() LIMIT {}"
_COUNT = "SELECT COUNT(*) AS n FROM documents WHERE deleted_at IS NULL"
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Plan:
    """Counts are of documents; `tokens`, `calls` and `cost` (USD) are estimates from `sampled` texts."""

    old: EmbeddingModel
    new: EmbeddingModel
    generation: int
    metric: str
    documents: int
    sampled: int
    tokens: int
    longest: int
    calls: int

    @property
    def cost(self) -> float | None:
        """None where the catalog knows no price."""
        price = self.new.price_per_million_tokens
        return None if price is None else self.tokens * price / 1_000_000

    def vector_bytes(self, *models: EmbeddingModel) -> int:
        """Of the vectors alone, without their metadata."""
        return self.documents * sum(model.dims for model in models) * _FLOAT_BYTES

    def to_json(self) -> dict[str, Any]:
        return {
            "from": {"generation": self.generation, "model": self.old.name, "dims": self.old.dims},
            "to": {"generation": self.generation + 1, "model": self.new.name, "dims": self.new.dims},
            "metric": self.metric,
            "documents": self.documents,
            "sampled": self.sampled,
            "aiCalls": self.calls,
            "tokens": self.tokens,
            "longestTokens": self.longest,
            "inputTokensAllowed": self.new.max_input_tokens,
            "costUsd": self.cost,
            "pricePerMillionTokens": self.new.price_per_million_tokens,
            "priceSource": self.new.source,
            "priceAsOf": self.new.as_of,
            "vectorBytes": {
                "now": self.vector_bytes(self.old),
                "meanwhile": self.vector_bytes(self.old, self.new),
                "after": self.vector_bytes(self.new),
            },
        }


def make(account: StackAccount, config: RagConfig, new: EmbeddingModel, metric: str) -> Plan:
    """Look at the stack and estimate. Raises InputError, Refused or Unreachable."""
    database = account.database()
    (row,) = _query(account, database, "count the documents", _COUNT)
    ids = [str(each["id"]) for each in _query(account, database, "choose a sample", _IDS.format(SAMPLE))]
    index = account.names.index(config.embedding.generation, config.model.dims)
    lengths = [_tokens(text) for text in _texts(account, index, ids)]
    return estimate(config, new, metric, int(row["n"]), lengths)


def estimate(config: RagConfig, new: EmbeddingModel, metric: str, documents: int, lengths: list[int]) -> Plan:
    """The plan for so many documents, of which some have these lengths in tokens."""
    average = sum(min(each, new.max_input_tokens) for each in lengths) / len(lengths) if lengths else 0.0
    batch = new.max_batch
    if new.max_request_tokens and average:
        batch = max(1, min(batch, int(new.max_request_tokens / average)))
    return Plan(
        old=config.model,
        new=new,
        generation=config.embedding.generation,
        metric=metric,
        documents=documents,
        sampled=len(lengths),
        tokens=round(average * documents),
        longest=max(lengths, default=0),
        calls=math.ceil(documents / batch),
    )


def _tokens(text: str) -> int:
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def _query(account: StackAccount, database: str, doing: str, sql: str) -> list[Any]:
    def run(client: "Cloudflare") -> list[Any]:
        return list(client.d1.database.query(database, account_id=account.id, sql=sql))

    results = account.call(doing, run)
    return list(results[0].results or ())


def _texts(account: StackAccount, index: str, ids: list[str]) -> Iterable[str]:
    """What is embedded of these documents, as far as the index shows them already."""
    size = VECTORIZE_GET_IDS.value
    for at in range(0, len(ids), size):
        page = ids[at : at + size]

        def get(client: "Cloudflare", page: list[str] = page) -> Any:
            return client.vectorize.indexes.get_by_ids(index, account_id=account.id, ids=page)

        for vector in account.call(f"read a sample of index {index}", get) or ():
            metadata = vector["metadata"] or {}
            yield str(metadata.get("content") or metadata.get("rawBody") or "")
