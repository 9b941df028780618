"""Which metadata indexes hold every vector: a filter is answered in full or refused."""

import hashlib
import json
from collections.abc import Collection, Iterator
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
    from rag.schemas import SearchRequest

# The metadata indexes that this Worker filters by, as "property:type".
INDEXES = sorted(
    [f"{name}:string" for name in TAG_PROPERTIES]
    + ["active:boolean"]
    + [f"{name}:{field['type']}" for name, field in FIELDS.items() if field["filterable"]]
)
SCHEMA = hashlib.sha256(",".join(INDEXES).encode()).hexdigest()[:12]


def value(ready: Collection[str], again: Collection[str] = ()) -> str:
    """The value of `schema` in `meta`, given the indexes that hold every vector.

    `again` are those that did and were made a second time, by whoever repaired them: then documents are
    missing in them that have always had such a value.
    """
    return compact(
        {"revision": SCHEMA, "ready": sorted(ready), **({"again": sorted(again)} if again else {})}
    )


async def move(b: Bindings, meta: dict[str, str]) -> None:
    """Take over the metadata indexes of this Worker: new ones are ready when the sweep has been through."""
    old = meta.get("schema")
    held = json.loads(old) if old else {"revision": None, "ready": []}
    if old and held["revision"] == SCHEMA:
        return
    ready = set(held["ready"]) & set(INDEXES)
    new = value(ready, set(held.get("again", ())) & set(INDEXES))
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


async def refuse_unready(b: Bindings, state: "State", request: "SearchRequest") -> None:
    """Raises Problem (409) for a condition on a property whose index does not hold every vector yet."""
    name = next(_unready(state, request), None)
    if name is None:
        return
    found = await store.progress(b.db, state.serving, state.other, SCHEMA)
    done = found.total - found.behind
    raise Problem(
        "conflict",
        f"{done} of {found.total} documents are in the index of {name!r}; leave it out, or try later",
        field=f"filter.{name}" if name in FIELDS else name,
        retry_after=30,
        extra={"progress": {"done": done, "total": found.total}},
    )


def _unready(state: "State", request: "SearchRequest") -> Iterator[str]:
    """Fields, "tags" or "active", of which documents may be missing.

    No document has as many tags as a slot that was only added could hold; one made again lacks those it had.
    """
    for name in request.filter:
        if f"{name}:{FIELDS[name]['type']}" not in state.ready:
            yield name
    again = json.loads(state.meta.get("schema", "{}")).get("again", ())
    if request.tags and any(f"{name}:string" in again for name in TAG_PROPERTIES):
        yield "tags"
    if request.active is not None and "active:boolean" in again:
        yield "active"
