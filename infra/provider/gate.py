"""The dims gate: which changes of an embedding space a config may ask for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from infra.provider.base import Inputs

KEY = "cf-rag:rag"


class Replacing(Inputs):
    """The space that a new one takes over from, in full, as the config names it."""

    generation: int = Field(ge=1)
    model: str
    dims: int = Field(ge=1)
    metric: str = "cosine"
    index: str
    strategy: Literal["reindex", "discard"] = "reindex"


@dataclass(frozen=True)
class Space:
    """One vector space; where only an index is left to read it from, its model is not known."""

    generation: int
    model: str | None
    dims: int
    metric: str
    index: str

    @property
    def key(self) -> str:
        """What tells spaces apart."""
        return f"g{self.generation}/{self.dims}/{self.metric}"

    @classmethod
    def of(cls, values: dict[str, Any]) -> Space:
        """From the inputs of an `EmbeddingSpace`, or of its `replacing`."""
        return cls(
            int(values["generation"]),
            values.get("model"),
            int(values["dims"]),
            str(values.get("metric", "cosine")),
            str(values.get("index", "")),
        )


@dataclass(frozen=True)
class Wish:
    """A space and the one that it replaces, as deployed or as asked for."""

    space: Space
    replaced: Space | None = None
    strategy: str = "reindex"

    @classmethod
    def of(cls, values: dict[str, Any]) -> Wish:
        """From the inputs of an `EmbeddingSpace`."""
        replacing = values.get("replacing")
        if not replacing:
            return cls(Space.of(values))
        return cls(Space.of(values), Space.of(replacing), str(replacing.get("strategy", "reindex")))


@dataclass(frozen=True)
class Refusal:
    """Why a wish can't be granted; `at_stake` is the index whose vectors would be lost."""

    setting: str
    reason: str
    way_out: str
    at_stake: str | None = None


def judge(deployed: Wish, wanted: Wish) -> Refusal | None:
    """Whether the config may go from what is deployed to what it asks for now."""
    if deployed.replaced is not None:
        return _while_replacing(deployed, deployed.replaced, wanted)
    old, new = deployed.space, wanted.space
    if new.key == old.key:
        return _same_space(old, wanted)
    if wanted.replaced is not None:
        return _start(old, new, wanted.replaced)
    return Refusal(
        _first_difference(old, new),
        f"{_changes(old, new)} would leave the stack's documents behind",
        _how_to_replace(old, new),
        old.index,
    )


def _same_space(old: Space, wanted: Wish) -> Refusal | None:
    if wanted.replaced is None:
        return None  # the model alone: the drift machine embeds again in place
    return Refusal(
        "replacing",
        f"nothing is left to replace: the stack is in generation {old.generation} already "
        f"({_described(old)})",
        f"remove {KEY}.replacing",
    )


def _start(old: Space, new: Space, replaced: Space) -> Refusal | None:
    if _matches(replaced, old) and new.generation == old.generation + 1:
        return None
    if not _matches(replaced, old):
        reason = (
            f"replacing names generation {replaced.generation} ({_described(replaced)}), but the stack is in "
        )
        reason += f"generation {old.generation} ({_described(old)})"
        return Refusal("replacing", reason, _how_to_replace(old, new), old.index)
    reason = f"generation {old.generation} can only be followed by {old.generation + 1}, not {new.generation}"
    return Refusal("generation", reason, _how_to_replace(old, new), old.index)


def _while_replacing(deployed: Wish, replaced: Space, wanted: Wish) -> Refusal | None:
    finish = wanted.space == deployed.space and wanted.replaced is None
    abort = _matches(wanted.space, replaced) and wanted.replaced is None
    if wanted == deployed or finish or abort:
        return None
    new = deployed.space
    return Refusal(
        _first_difference(new, wanted.space) if wanted.space != new else "replacing",
        f"generation {replaced.generation} ({_described(replaced)}) is being replaced by generation "
        f"{new.generation} ({_described(new)}), and a config may ask for no other change meanwhile",
        f"let it run with embedding {embedding_setting(new)} and replacing "
        f"{replacing_setting(replaced, deployed.strategy)}; "
        f"or abort it with embedding {embedding_setting(replaced)} and without replacing",
        replaced.index,
    )


def _matches(named: Space, space: Space) -> bool:
    return named.key == space.key and space.model in (None, named.model)


def _first_difference(old: Space, new: Space) -> str:
    if old.dims != new.dims:
        return "dims"
    if old.metric != new.metric:
        return "metric"
    return "generation" if old.generation != new.generation else "model"


def _changes(old: Space, new: Space) -> str:
    pairs = (
        ("dims", old.dims, new.dims),
        ("metric", old.metric, new.metric),
        ("generation", old.generation, new.generation),
    )
    changed = [f"{name} {before} -> {after}" for name, before, after in pairs if before != after]
    return f"changing {', '.join(changed)} ({old.model or 'model unknown'} -> {new.model})"


def _described(space: Space) -> str:
    return f"{space.model or 'model unknown'}, {space.dims} dims, {space.metric}"


def replacing_setting(space: Space, strategy: str) -> str:
    """`replacing` as a person writes it."""
    model = json.dumps(space.model or "<its model>")
    return f"{{generation: {space.generation}, model: {model}, strategy: {strategy}{_metric(space)}}}"


def embedding_setting(space: Space) -> str:
    """`embedding` as a person writes it."""
    return f"{{model: {json.dumps(space.model)}, generation: {space.generation}{_metric(space)}}}"


def _metric(space: Space) -> str:
    return "" if space.metric == "cosine" else f", metric: {space.metric}"


def _how_to_replace(old: Space, new: Space) -> str:
    return (
        f"to replace the space without losing a document, set {KEY}.embedding.generation: "
        f"{old.generation + 1} "
        f"and {KEY}.replacing: {replacing_setting(old, 'reindex')}; to keep it, go back to "
        f"{old.model or 'the old model'} with {old.dims} dims, {old.metric}, generation {old.generation}"
    )
