"""Which metadata indexes hold every vector: a filter on a field is answered in full or refused."""

import hashlib
import json
from collections.abc import Collection
from typing import TYPE_CHECKING

from rag import statements as sql
from rag import store
from rag.bindings import Bindings
from rag.errors import Problem
from rag.jsonsafe import compact
from rag.logs import log
from rag.settings import FIELDS, TAG_PROPERTIES

if TYPE_CHECKING:
    from rag.model_state import State

# The metadata indexes that this Worker filters by, as "property:type".
INDEXES = sorted(
    [f"{name}:string" for name in TAG_PROPERTIES]
    + ["active:boolean"]
    + [f"{name}:{field['type']}" for name, field in FIELDS.items() if field["filterable"]]
)
SCHEMA = hashlib.sha256(",".join(INDEXES).encode()).hexdigest()[:12]


def value(ready: Collection[str]) -> str:
    """The value of `schema` in `meta`, given the indexes that hold every vector."""
    return compact({"revision": SCHEMA, "ready": sorted(ready)})


async def move(b: Bindings, meta: dict[str, str]) -> None:
    """Take over the metadata indexes of this Worker: new ones are ready when the sweep has been through."""
    old = meta.get("schema")
    held = json.loads(old) if old else {"revision": None, "ready": []}
    if old and held["revision"] == SCHEMA:
        return
    ready = set(held["ready"]) & set(INDEXES)
    new = value(ready)
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


async def refuse_unready(b: Bindings, state: "State", properties: Collection[str]) -> None:
    """Raises Problem (409) for a filter on a field whose index does not hold every vector yet."""
    for name in properties:
        if f"{name}:{FIELDS[name]['type']}" in state.ready:
            continue
        found = await store.progress(b.db, state.serving, state.other, SCHEMA)
        done = found.total - found.behind
        raise Problem(
            "conflict",
            f"{done} of {found.total} documents are in the index of {name!r}; leave it out, or try later",
            field=f"filter.{name}",
            retry_after=30,
            extra={"progress": {"done": done, "total": found.total}},
        )
