"""The drift machine: what the stored vectors are, what this Worker is made for, and what follows from it."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from rag import filterable, replacing, spaces, store
from rag import statements as sql
from rag.bindings import Bindings
from rag.document import FORMAT_VERSION
from rag.errors import dims_mismatch, unavailable
from rag.filterable import INDEXES, SCHEMA
from rag.logs import log
from rag.models import MODELS, Model
from rag.rows import CLAIM_MS, now_ms
from rag.spaces import Known, Space

Status = Literal["fresh", "ok", "reindexing", "dims_mismatch", "replacing"]

# How long an isolate may go on without looking.
CACHE_SECONDS = replacing.KNOWN_AFTER_SECONDS


@dataclass(frozen=True)
class State:
    """What a request needs to know, as of one look into `meta`.

    `spaces` are those that this Worker writes to: first the one that answers, then the other one of a
    replacement. `desired` is the fingerprint that the operator wants, else the model's own; `ready` the
    metadata indexes that hold every vector; `moves` that this Worker may change the state.
    """

    status: Status
    spaces: tuple[Space, ...]
    desired: str
    ready: frozenset[str]
    moves: bool
    meta: Mapping[str, str]
    advice: str | None = None
    looks: list[None] = field(default_factory=lambda: [None], repr=False)

    @property
    def serving(self) -> Space:
        """The space that decides: its index is searched, and its write answers for a document."""
        return self.spaces[0]

    @property
    def other(self) -> Space | None:
        """The space that takes over, or after that the one that was replaced."""
        return self.spaces[1] if len(self.spaces) > 1 else None

    @property
    def incoming(self) -> Space | None:
        """The space that takes over, until it does."""
        return self.other if self.other and self.other.generation > self.serving.generation else None

    @property
    def complete(self) -> bool:
        """Whether every vector is of the wanted model and in every metadata index."""
        return not any(space.reindexing for space in self.spaces) and self.ready.issuperset(INDEXES)

    def settled(self, space: Space) -> bool:
        """Whether no vector of an older model and the same content can still be seen in its index."""
        return not space.reindexing and now_ms() - space.since > CLAIM_MS

    def take_look(self) -> bool:
        """True for the first caller of each look: what is done once per look is done by it."""
        return bool(self.looks) and self.looks.pop() is None


_cached: tuple[float, State] | None = None


def forget() -> None:
    """Look again at the next call."""
    global _cached
    _cached = None


async def ensure(b: Bindings) -> State:
    """The state for a data route. Raises Problem (503) where the stored vectors don't fit this Worker."""
    state = await current(b)
    if state.status == "dims_mismatch":
        raise dims_mismatch(state.advice or "")
    return state


async def current(b: Bindings) -> State:
    """The state, at most 60 s old; moved if it has to be and this Worker may."""
    global _cached
    if _cached is not None and time.monotonic() - _cached[0] < CACHE_SECONDS:
        return _cached[1]
    state = await _look(b)
    _cached = (time.monotonic(), state)
    return state


async def _look(b: Bindings) -> State:
    model = MODELS.get(b.vars.model)
    if model is None:
        known_models = ", ".join(sorted(MODELS))
        raise unavailable(f"EMBED_MODEL is {b.vars.model!r}; this Worker knows {known_models}")
    own, meta = spaces.of(b.vars, model), await _read(b)
    known = spaces.read(meta)
    if b.vars.dims != model.dims:
        return _mismatch(b, own, known, meta)
    if known is None:
        return await _begin(b, own, meta)
    moves = _may_move(own, meta)
    if known.discarding and await replacing.discard_rest(b, known):
        return await _look(b)
    here = known.of(own.generation)
    if here is None:
        return await _enter(b, own, known, meta, moves)
    bound = tuple(each for each in (known.serving, known.other) if each and b.index(each.generation))
    early = known.serving not in bound and known.serving.generation < own.generation
    if here.model.dims != own.model.dims or early:
        return _mismatch(b, own, known, meta)
    if moves and known.other and not b.vars.replacing and await replacing.end(b, known, here, SCHEMA):
        return await _look(b)
    return await _serve(b, own.model, here, bound, known, meta, moves)


async def _serve(
    b: Bindings,
    model: Model,
    here: Space,
    bound: tuple[Space, ...],
    known: Known,
    meta: dict[str, str],
    moves: bool,
) -> State:
    """In the Worker's own space; where its model is another than the stored one, that is what moves."""
    if moves:
        await filterable.move(b, meta)
    advice = None
    if moves and known.other and not b.vars.replacing:
        left = known.serving if here == known.other else known.other
        advice = f"documents are left in generation {left.generation} only: put `replacing` back"
    if here.fingerprint != model.fingerprint:
        if moves and b.vars.auto_reindex:
            return await _reindex(b, model, here, known, meta)
        if moves:
            advice = _stay(model, here)
        elif here.format != FORMAT_VERSION:
            # Texts in another format can't be made here: this Worker goes on as it was made.
            bound = tuple(each.made_with(model) if each == here else each for each in bound)
    return _serving(_status(bound), bound, meta, moves, advice)


async def _enter(b: Bindings, own: Space, known: Known, meta: dict[str, str], moves: bool) -> State:
    """The data knows nothing of the Worker's space yet: its config may ask for a replacement."""
    old = b.vars.replacing
    if old is None or old.generation != known.serving.generation:
        return _mismatch(b, own, known, meta)
    if old.strategy == "discard":
        wanted = meta.get("desired_generation", str(own.generation))
        asked = wanted in (str(own.generation), str(old.generation))
        if asked and await replacing.discard(b, known, own):
            return await _look(b)
        return _mismatch(b, own, known, meta)
    if b.vectorize_next is None or known.serving.model.dims != old.dims:
        return _mismatch(b, own, known, meta)
    if moves and await replacing.begin(b, known, own, SCHEMA):
        return await _look(b)
    # Not wanted yet, or what the columns held before is not forgotten yet.
    return _serving(_status((known.serving,)), (known.serving,), meta, False)


async def _read(b: Bindings) -> dict[str, str]:
    """`meta`, with "?stale", "?drift" and "?schema" ("1" or "0") for rows that a sweep has to look at."""
    cut = now_ms() - CLAIM_MS
    (rows,) = await store.run(b.db, (sql.STATE, cut, SCHEMA))
    return {str(row["key"]): str(row["value"]) for row in rows}


def _may_move(own: Space, meta: Mapping[str, str]) -> bool:
    """Whether this Worker is the one that the operator wants; where nobody has said, every one is."""
    wanted = (
        meta.get("desired_fingerprint", own.fingerprint),
        meta.get("desired_generation", str(own.generation)),
        meta.get("desired_schema", SCHEMA),
    )
    return wanted == (own.fingerprint, str(own.generation), SCHEMA)


async def _begin(b: Bindings, own: Space, meta: dict[str, str]) -> State:
    """First boot: the vectors will be what this Worker is made for, if it is the wanted one."""
    moves = _may_move(own, meta)
    if moves:
        meta["space"], meta["schema"] = spaces.text(own), filterable.value(INDEXES)
        begin = (sql.META_BEGIN, "space", meta["space"]), (sql.META_BEGIN, "schema", meta["schema"])
        await store.run(b.db, *begin)
    return _serving("fresh", (own,), meta, moves)


async def _reindex(b: Bindings, model: Model, here: Space, known: Known, meta: dict[str, str]) -> State:
    """Equal dims, another model: from now on documents are embedded with it, the stored ones by the sweep."""
    changed = replace(here.made_with(model), reindexing=True, since=now_ms())
    if not await store.swap(b.db, "space", known.text, known.with_changed(here, changed)):
        return await _look(b)
    log("warn", "the embedding model has changed: all documents are embedded again", model=model.name)
    # What an earlier sweep has done says nothing about this one.
    await store.run(b.db, (sql.META_DROP, "sweep"))
    return await _look(b)


def _stay(model: Model, here: Space) -> str:
    """Equal dims, another model, and nobody wants documents to be embedded again by themselves."""
    advice = (
        f"documents stay with {here.model.name}, though this Worker is configured for {model.name}: set "
        "AUTO_REINDEX_ON_MODEL_CHANGE (embedding.autoReindex in the config) to true to embed all of them "
        "again, or the model back"
    )
    log("warn", "the embedding model has changed, and AUTO_REINDEX_ON_MODEL_CHANGE is off", advice=advice)
    return advice


async def finish(b: Bindings, state: State) -> None:
    """Every row is as it should be: all indexes are ready, and nothing is left of an older model."""
    known = spaces.read(state.meta)
    if known and any(space.reindexing for space in state.spaces):
        now = now_ms()
        done = [
            replace(each, reindexing=False, since=now) if each.reindexing else each for each in state.spaces
        ]
        other = done[1] if len(done) > 1 else known.other
        new = spaces.text(done[0], other, discarding=known.discarding, ended=known.ended)
        await store.swap(b.db, "space", known.text, new)
    if not state.ready.issuperset(INDEXES):
        await store.swap(b.db, "schema", state.meta["schema"], filterable.value(INDEXES))
    forget()


def _status(bound: tuple[Space, ...]) -> Status:
    if len(bound) > 1:
        return "replacing"
    return "reindexing" if bound[0].reindexing else "ok"


def _serving(
    status: Status,
    bound: tuple[Space, ...],
    meta: Mapping[str, str],
    moves: bool,
    advice: str | None = None,
) -> State:
    schema = json.loads(meta["schema"]) if "schema" in meta else {"ready": INDEXES}
    desired = meta.get("desired_fingerprint", bound[0].fingerprint)
    return State(status, bound, desired, frozenset(schema["ready"]), moves, meta, advice)


def _mismatch(b: Bindings, own: Space, known: Known | None, meta: Mapping[str, str]) -> State:
    here = f"{own.model.name} with {b.vars.dims} dimensions, generation {own.generation}"
    there = f"that model has {own.model.dims} dimensions"
    if known:
        there = f"the stored vectors are of {known.serving.described()}"
    advice = (
        f"this Worker is configured for {here}, but {there}; deploy the version that belongs to the data, "
        "or replace the space"
    )
    log(
        "error", "embedding dimensions don't match the stored vectors", model=own.model.name, dims=b.vars.dims
    )
    return State("dims_mismatch", (own,), own.fingerprint, frozenset(), False, meta, advice)
