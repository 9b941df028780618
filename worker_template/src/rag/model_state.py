"""The drift machine: what the stored vectors are, what this Worker is made for, and what follows from it."""

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
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

    `model` is what texts are embedded with; `desired` the fingerprint that the operator wants (else the model's own);
    `ready` the metadata indexes that hold every vector; `settled` that no older vector of the same content can still
    be seen in the index.
    """

    status: Status
    model: Model
    desired: str
    ready: frozenset[str]
    settled: bool
    meta: Mapping[str, str]
    advice: str | None = None

    @property
    def fingerprint(self) -> str:
        return self.model.fingerprint


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
    """The state, at most 60 s old; moves it if it has to be moved and this Worker may."""
    global _cached
    if _cached is not None and time.monotonic() - _cached[0] < CACHE_SECONDS:
        return _cached[1]
    state = await _look(b)
    _cached = (time.monotonic(), state)
    return state


async def _look(b: Bindings) -> State:
    own = MODELS.get(b.vars.model)
    if own is None:
        raise unavailable(f"EMBED_MODEL is {b.vars.model!r}; this Worker knows {', '.join(sorted(MODELS))}")
    meta = await read(b, own)
    space = json.loads(meta["space"]) if "space" in meta else None
    if b.vars.dims != own.dims or (space and _differs(b, space)):
        return _mismatch(b, own, space, meta)
    if space is None:
        return await _begin(b, own, meta)
    if space["fingerprint"] != own.fingerprint:
        return await _drifted(b, own, space, meta)
    return _serving("reindexing" if space["reindexing"] else "ok", own, space, meta)


async def read(b: Bindings, own: Model) -> dict[str, str]:
    """`meta`, with "?stale", "?drift" and "?schema" ("1" or "0") for rows that a sweep has to look at."""
    cut = store.now_ms() - store.CLAIM_MS
    (rows,) = await store.run(b.db, (sql.STATE, cut, own.fingerprint, SCHEMA))
    return {str(row["key"]): str(row["value"]) for row in rows}


def _differs(b: Bindings, space: Mapping[str, Any]) -> bool:
    return bool(space["dims"] != b.vars.dims or space["generation"] != b.vars.generation)


def may_move(b: Bindings, own: Model, meta: Mapping[str, str]) -> bool:
    """Whether this Worker is the one that the operator wants; where nobody has said, every one is."""
    wanted = (
        meta.get("desired_fingerprint", own.fingerprint),
        meta.get("desired_generation", b.vars.generation),
    )
    return wanted[0] == own.fingerprint and int(wanted[1]) == b.vars.generation


def space_of(b: Bindings, own: Model, *, reindexing: bool, since: int) -> str:
    """The value of `space` in `meta`: all that a Worker of another version needs to go on with these vectors."""
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


async def _begin(b: Bindings, own: Model, meta: dict[str, str]) -> State:
    """First boot: these vectors will be what this Worker is made for."""
    if may_move(b, own, meta):
        meta["space"] = space_of(b, own, reindexing=False, since=0)
        meta["schema"] = compact({"revision": SCHEMA, "ready": INDEXES})
        await store.run(
            b.db, (sql.META_BEGIN, "space", meta["space"]), (sql.META_BEGIN, "schema", meta["schema"])
        )
    return _serving("fresh", own, {"reindexing": False, "since": 0}, meta)


async def _drifted(b: Bindings, own: Model, space: dict[str, Any], meta: dict[str, str]) -> State:
    """The stored vectors are another model's, of equal dims: go on with that one."""
    advice = f"documents are embedded with {space['model']}, while this Worker is configured for {own.name}"
    return _serving("ok", _stored_model(own, space), space, meta, advice)


def _stored_model(own: Model, space: Mapping[str, Any]) -> Model:
    # Texts in another format can't be made here: then this Worker goes on as it was made.
    return Model(*space["profile"]) if space["format"] == FORMAT_VERSION else own


def _serving(
    status: Status, model: Model, space: Mapping[str, Any], meta: Mapping[str, str], advice: str | None = None
) -> State:
    schema = json.loads(meta["schema"]) if "schema" in meta else {"ready": INDEXES}
    quiet = not space["reindexing"] and store.now_ms() - space["since"] > store.CLAIM_MS
    desired = meta.get("desired_fingerprint", model.fingerprint)
    return State(status, model, desired, frozenset(schema["ready"]), quiet, meta, advice)


def _mismatch(b: Bindings, own: Model, space: Mapping[str, Any] | None, meta: Mapping[str, str]) -> State:
    here = f"EMBED_MODEL {own.name} with EMBED_DIMS {b.vars.dims}, generation {b.vars.generation}"
    there = (
        f"{space['model']} with {space['dims']} dimensions, generation {space['generation']}" if space else ""
    )
    has = f"the stored vectors are {there}" if space else f"that model has {own.dims} dimensions"
    advice = f"this Worker is configured for {here}, but {has}; deploy the version that belongs to the data, or replace the space"
    log("error", "embedding dimensions don't match", model=own.name, dims=b.vars.dims)
    return State("dims_mismatch", own, own.fingerprint, frozenset(), False, meta, advice)


def refuse_unready(state: State, properties: Mapping[str, Any]) -> None:
    """Raises Problem (409) for a filter on a field whose index does not hold every vector yet."""
    for name in properties:
        index = f"{name}:{FIELDS[name]['type']}" if name in FIELDS else None
        if index and index not in state.ready:
            raise Problem(
                "conflict",
                f"documents are still being added to the index of {name!r}; search without it, or again later",
                field=f"filter.{name}",
                retry_after=30,
            )
