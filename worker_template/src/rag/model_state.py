"""The drift machine: what the stored vectors are, what this Worker is made for, and what follows from it."""

import hashlib
import json
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rag import statements as sql
from rag import store
from rag.bindings import Bindings
from rag.document import FORMAT_VERSION
from rag.errors import Problem, dims_mismatch, unavailable
from rag.jsonsafe import compact
from rag.logs import log
from rag.models import MODELS, Model
from rag.settings import FIELDS, TAG_PROPERTIES

Status = Literal["fresh", "ok", "reindexing", "dims_mismatch"]

# How long an isolate may go on without looking.
CACHE_SECONDS = 60.0

# The metadata indexes that this Worker filters by, as "property:type".
INDEXES = sorted(
    [f"{name}:string" for name in TAG_PROPERTIES]
    + ["active:boolean"]
    + [f"{name}:{field['type']}" for name, field in FIELDS.items() if field["filterable"]]
)
SCHEMA = hashlib.sha256(",".join(INDEXES).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class State:
    """What a request needs to know, as of one look into `meta`.

    `model` is what texts are embedded with; `desired` the fingerprint that the operator wants, else the
    model's own; `ready` the metadata indexes that hold every vector; `settled` that no older vector of the
    same content can still be seen in the index; `moves` that this Worker may change the state.
    """

    status: Status
    model: Model
    desired: str
    ready: frozenset[str]
    settled: bool
    moves: bool
    meta: Mapping[str, str]
    advice: str | None = None
    looks: list[None] = field(default_factory=lambda: [None], repr=False)

    @property
    def fingerprint(self) -> str:
        return self.model.fingerprint

    @property
    def complete(self) -> bool:
        """Whether every vector is of the wanted model and in every metadata index."""
        return self.status != "reindexing" and self.ready.issuperset(INDEXES)

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
    own = MODELS.get(b.vars.model)
    if own is None:
        known = ", ".join(sorted(MODELS))
        raise unavailable(f"EMBED_MODEL is {b.vars.model!r}; this Worker knows {known}")
    meta = await _read(b, own)
    space = json.loads(meta["space"]) if "space" in meta else None
    if b.vars.dims != own.dims or (space and _differs(b, space)):
        return _mismatch(b, own, space, meta)
    if space is None:
        return await _begin(b, own, meta)
    moves = _may_move(b, own, meta)
    if moves:
        await _move_schema(b, meta)
    if space["fingerprint"] == own.fingerprint:
        return _serving(_status(space), own, space, meta, moves)
    if not moves:
        return _serving(_status(space), _stored_model(own, space), space, meta, moves)
    if not b.vars.auto_reindex:
        return _stay(own, space, meta)
    return await _reindex(b, own, meta)


async def _read(b: Bindings, own: Model) -> dict[str, str]:
    """`meta`, with "?stale", "?drift" and "?schema" ("1" or "0") for rows that a sweep has to look at."""
    cut = store.now_ms() - store.CLAIM_MS
    (rows,) = await store.run(b.db, (sql.STATE, cut, own.fingerprint, SCHEMA))
    return {str(row["key"]): str(row["value"]) for row in rows}


def _differs(b: Bindings, space: Mapping[str, Any]) -> bool:
    return bool(space["dims"] != b.vars.dims or space["generation"] != b.vars.generation)


def _may_move(b: Bindings, own: Model, meta: Mapping[str, str]) -> bool:
    """Whether this Worker is the one that the operator wants; where nobody has said, every one is."""
    wanted = (
        meta.get("desired_fingerprint", own.fingerprint),
        meta.get("desired_generation", str(b.vars.generation)),
        meta.get("desired_schema", SCHEMA),
    )
    return wanted == (own.fingerprint, str(b.vars.generation), SCHEMA)


def _space(b: Bindings, own: Model, *, reindexing: bool, since: int) -> str:
    """The value of `space` in `meta`: what a Worker of another version needs to go on with these vectors."""
    return compact(
        {
            "fingerprint": own.fingerprint,
            "model": own.name,
            "dims": own.dims,
            "generation": b.vars.generation,
            "format": FORMAT_VERSION,
            "profile": list(own),
            "reindexing": reindexing,
            "since": since,
        }
    )


def _schema(ready: Collection[str]) -> str:
    return compact({"revision": SCHEMA, "ready": sorted(ready)})


async def _begin(b: Bindings, own: Model, meta: dict[str, str]) -> State:
    """First boot: the vectors will be what this Worker is made for, if it is the wanted one."""
    moves = _may_move(b, own, meta)
    if moves:
        meta["space"], meta["schema"] = _space(b, own, reindexing=False, since=0), _schema(INDEXES)
        begin = (sql.META_BEGIN, "space", meta["space"]), (sql.META_BEGIN, "schema", meta["schema"])
        await store.run(b.db, *begin)
    return _serving("fresh", own, {"reindexing": False, "since": 0}, meta, moves)


async def _reindex(b: Bindings, own: Model, meta: dict[str, str]) -> State:
    """Equal dims, another model: from now on documents are embedded with it, the stored ones by the sweep."""
    new = _space(b, own, reindexing=True, since=store.now_ms())
    if not await store.swap(b.db, "space", meta["space"], new):
        return await _look(b)
    log("warn", "the embedding model has changed: all documents are embedded again", model=own.name)
    # What an earlier sweep has done says nothing about this one.
    await store.run(b.db, (sql.META_DROP, "sweep"))
    meta.pop("sweep", None)
    meta.update({"space": new, "?drift": "1"})
    return _serving("reindexing", own, json.loads(new), meta, True)


def _stay(own: Model, space: Mapping[str, Any], meta: Mapping[str, str]) -> State:
    """Equal dims, another model, and nobody wants documents to be embedded again by themselves."""
    advice = (
        f"documents stay with {space['model']}, though this Worker is configured for {own.name}: set "
        "AUTO_REINDEX_ON_MODEL_CHANGE to true to embed all of them again, or the model back"
    )
    log("warn", "the embedding model has changed, and AUTO_REINDEX_ON_MODEL_CHANGE is off", advice=advice)
    # Only abandoned writes are of interest then, not that everything is of another model than this one.
    kept = {**meta, "?drift": "0"}
    return _serving(_status(space), _stored_model(own, space), space, kept, True, advice)


async def _move_schema(b: Bindings, meta: dict[str, str]) -> None:
    """Take over the metadata indexes of this Worker: new ones are ready when the sweep has been through."""
    old = meta.get("schema")
    held = json.loads(old) if old else {"revision": None, "ready": []}
    if old and held["revision"] == SCHEMA:
        return
    ready = set(held["ready"]) & set(INDEXES)
    new = _schema(ready)
    moved = await (store.swap(b.db, "schema", old, new) if old else store.begin(b.db, "schema", new))
    if not moved:
        return
    meta["schema"] = new
    if ready == set(INDEXES):
        # Indexes have only gone: every vector is in those that are left.
        await store.run(b.db, (sql.ADOPT_SCHEMA, SCHEMA, str(held["revision"])))
        meta["?schema"] = "0"
    else:
        log(
            "info",
            "metadata indexes were added: all vectors are written again",
            missing=sorted(set(INDEXES) - ready),
        )
        meta["?schema"] = "1"


async def finish(b: Bindings, state: State) -> None:
    """Every row is as it should be: all indexes are ready, and nothing is left of an older model."""
    space = json.loads(state.meta["space"])
    if space["reindexing"]:
        done = compact({**space, "reindexing": False, "since": store.now_ms()})
        await store.swap(b.db, "space", state.meta["space"], done)
    if not state.ready.issuperset(INDEXES):
        await store.swap(b.db, "schema", state.meta["schema"], _schema(INDEXES))
    forget()


def _status(space: Mapping[str, Any]) -> Status:
    return "reindexing" if space["reindexing"] else "ok"


def _stored_model(own: Model, space: Mapping[str, Any]) -> Model:
    # Texts in another format can't be made here: then this Worker goes on as it was made.
    return Model(*space["profile"]) if space["format"] == FORMAT_VERSION else own


def _serving(
    status: Status,
    model: Model,
    space: Mapping[str, Any],
    meta: Mapping[str, str],
    moves: bool,
    advice: str | None = None,
) -> State:
    schema = json.loads(meta["schema"]) if "schema" in meta else {"ready": INDEXES}
    quiet = not space["reindexing"] and store.now_ms() - space["since"] > store.CLAIM_MS
    desired = meta.get("desired_fingerprint", model.fingerprint)
    return State(status, model, desired, frozenset(schema["ready"]), quiet, moves, meta, advice)


def _mismatch(b: Bindings, own: Model, space: Mapping[str, Any] | None, meta: Mapping[str, str]) -> State:
    here = f"{own.name} with {b.vars.dims} dimensions, generation {b.vars.generation}"
    there = f"that model has {own.dims} dimensions"
    if space:
        held = f"{space['model']} with {space['dims']} dimensions, generation {space['generation']}"
        there = f"the stored vectors are of {held}"
    advice = (
        f"this Worker is configured for {here}, but {there}; deploy the version that belongs to the data, "
        "or replace the space"
    )
    log("error", "embedding dimensions don't match the stored vectors", model=own.name, dims=b.vars.dims)
    return State("dims_mismatch", own, own.fingerprint, frozenset(), False, False, meta, advice)


async def refuse_unready(b: Bindings, state: State, properties: Collection[str]) -> None:
    """Raises Problem (409) for a filter on a field whose index does not hold every vector yet."""
    for name in properties:
        if f"{name}:{FIELDS[name]['type']}" in state.ready:
            continue
        total, behind = await store.progress(b.db, state.fingerprint, SCHEMA)
        raise Problem(
            "conflict",
            f"{total - behind} of {total} documents are in the index of {name!r}; leave it out, or try later",
            field=f"filter.{name}",
            retry_after=30,
            extra={"progress": {"done": total - behind, "total": total}},
        )
