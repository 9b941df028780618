"""What a Worker is bound to, as the stack deploys it and `wrangler.jsonc` writes it down."""

import hashlib
import json
from typing import NamedTuple

from infra.catalog import EmbeddingModel
from infra.config import RagConfig
from infra.naming import Names
from infra.sections import Metric


class Space(NamedTuple):
    """One vector space of a stack and the index that holds it; `binding` is None where none reads it."""

    binding: str | None
    generation: int
    model: EmbeddingModel
    metric: Metric
    name: str

    @property
    def key(self) -> str:
        """What tells spaces apart, as `EmbeddingSpace.spaces` spells it."""
        return f"g{self.generation}/{self.model.dims}/{self.metric}"


def spaces(config: RagConfig, names: Names) -> list[Space]:
    """The wanted space, and after it the one that it takes over from."""
    new, model, old = config.embedding, config.model, config.replacing
    index = names.index(new.generation, model.dims)
    if not old or not config.old_model:
        return [Space("VECTORIZE", new.generation, model, new.metric, index)]
    reads_old = old.strategy == "reindex"
    previous = names.index(old.generation, config.old_model.dims)
    return [
        Space("VECTORIZE_NEXT" if reads_old else "VECTORIZE", new.generation, model, new.metric, index),
        Space(
            "VECTORIZE" if reads_old else None,
            old.generation,
            config.old_model,
            old.metric or new.metric,
            previous,
        ),
    ]


def variables(config: RagConfig) -> dict[str, str]:
    """The Worker's plain variables: the wanted space, and while `replacing` the one it takes over from."""
    wanted = {
        "AUTO_REINDEX_ON_MODEL_CHANGE": "true" if config.embedding.auto_reindex else "false",
        "EMBED_DIMS": str(config.model.dims),
        "EMBED_GENERATION": str(config.embedding.generation),
        "EMBED_MODEL": config.model.name,
    }
    old, model = config.replacing, config.old_model
    if old is None or model is None:
        return wanted
    replaced = {
        "generation": old.generation,
        "model": model.name,
        "dims": model.dims,
        "metric": old.metric or config.embedding.metric,
        "strategy": old.strategy,
    }
    return {**wanted, "EMBED_REPLACING": json.dumps(replaced, separators=(",", ":"))}


def rate_namespace(names: Names) -> str:
    """A number for the stack's rate limit that no other stack of the account is likely to have."""
    return str(int.from_bytes(hashlib.sha256(names.worker.encode()).digest()[:4], "big") % (2**31 - 1) + 1)
