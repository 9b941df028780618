"""`VectorizeIndex`: one index, which never changes in place and is never lost by accident."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from infra.catalog import VECTORIZE_DIMENSIONS
from infra.errors import CfragError
from infra.provider import ending, outside, vectorize
from infra.provider.account import ApiFailure
from infra.provider.base import Call, CheckFailure, Found, Inputs, Resource, poll
from infra.provider.values import Values

if TYPE_CHECKING:
    from cloudflare import Cloudflare

DUPLICATE_NAME = 3002
"""`vectorize.index.duplicate_name`."""
DELETE_BY_NAME = "CFRAG_DELETE_INDEX"
"""Environment variable that names an index whose deletion is wanted, whatever its state says."""
CREATE_BY_NAME = "CFRAG_CREATE_INDEX"
"""Environment variable that names an index to be made again empty, with the old one's documents lost."""
TAKE_OVER_SECONDS = 150.0
"""How long a delete waits for the deployed Worker: its isolates look every 60 s, then all have to know."""
_FIXED = ("name", "dims", "metric", "generation", "owner")


class IndexInputs(Inputs):
    """An index; `database` is the name of the D1 database that says what the data is."""

    name: str
    dims: int = Field(ge=1, le=VECTORIZE_DIMENSIONS.value)
    metric: Literal["cosine", "euclidean", "dot-product"]
    generation: int = Field(ge=1)
    owner: str
    database: str | None = None
    deletion: Literal["protected", "when-replaced", "allowed"] = "protected"
    adopt: bool = False
    spaces: list[str] | None = None

    @property
    def space(self) -> str:
        """The space as `EmbeddingSpace.spaces` spells it."""
        return f"g{self.generation}/{self.dims}/{self.metric}"


class VectorizeIndex(Resource[IndexInputs]):
    """Named by generation and dims, so another space is another index beside this one."""

    token = "cfrag:index:VectorizeIndex"
    model = IndexInputs
    outputs = ("description",)
    described: ClassVar[dict[str, Any]] = {"description": str}
    uncompared: ClassVar[frozenset[str]] = frozenset({"spaces", "adopt"})

    async def check(self, call: Call, new: IndexInputs, old: Values | None) -> list[CheckFailure]:
        """Refuse changes in place, spaces that the gate has not granted, and indexes of others."""
        if new.spaces is not None and new.space not in new.spaces:
            return [CheckFailure("spaces", _not_granted(new, new.spaces))]
        if old:
            return _changed(new, old)
        found = await vectorize.get_index(call, new.name)
        reason = _unfit(found, new) if found else await _lost_as_far_as_known(call, new)
        return [CheckFailure("name", reason)] if reason else []

    def planned(self, new: Values, old: Values | None) -> Values:
        """The description, known at once."""
        return {"description": vectorize.description_of(new["owner"], new["generation"])}

    async def create(self, call: Call, new: IndexInputs) -> tuple[str, Values]:
        """Create the index, or take up the one that a killed run has made."""
        description = vectorize.description_of(new.owner, new.generation)
        if await vectorize.get_index(call, new.name) is None:
            if reason := await _lost(call, new):
                raise CfragError(reason)
            await outside.forget_index(call, new.database, new.generation)

        def create(client: Cloudflare) -> Any:
            return client.vectorize.indexes.create(
                account_id=call.account.id,
                name=new.name,
                description=description,
                config={"dimensions": new.dims, "metric": new.metric},
            )

        try:
            await call.account.call(f"create Vectorize index {new.name}", create)
            call.account.made.add(new.name)
        except ApiFailure as failure:
            if failure.status != 409 and DUPLICATE_NAME not in failure.codes:
                raise
            description = await _take_up(call, new, failure)
        return new.name, {"description": description}

    async def read(self, call: Call, resource_id: str, state: Values) -> Found | None:
        """The index as it is."""
        index = await vectorize.get_index(call, resource_id)
        if index is None:
            return None
        seen: Values = {"name": index.name, "dims": index.dims, "metric": index.metric}
        if not state:
            # An import: who made it is in the description.
            seen |= {"owner": index.owner, "generation": index.generation, "deletion": "protected"}
            seen |= {"adopt": index.owner is None}
        inputs = {key: value for key, value in (state | seen).items() if key != "description"}
        return Found(state | seen | {"description": index.description}, inputs)

    async def delete(self, call: Call, resource_id: str, state: Values) -> None:
        """Delete the index, if the lock is open."""
        count = await vectorize.vector_count(call, resource_id)
        if count is None:
            return
        if reason := await _locked(call, resource_id, state, count):
            raise CfragError(reason)

        def delete(client: Cloudflare) -> Any:
            return client.vectorize.indexes.delete(resource_id, account_id=call.account.id)

        call.account.made.discard(resource_id)
        try:
            await call.account.call(f"delete Vectorize index {resource_id}", delete)
        except ApiFailure as failure:
            if not failure.missing:
                raise


def _not_granted(new: IndexInputs, spaces: list[str]) -> str:
    return (
        f"index {new.name} is space {new.space}, but the stack's embedding space is "
        f"{' and '.join(spaces)}: a "
        "change of dims, metric or generation goes through the EmbeddingSpace resource. Run `pulumi preview` "
        "without --target, which says how"
    )


def _changed(new: IndexInputs, old: Values) -> list[CheckFailure]:
    wanted = new.model_dump()
    return [
        CheckFailure(
            key,
            f"index {old.get('name')} can't change its {key} from {old[key]} to {wanted[key]}: an index "
            f"never "
            "changes in place. A renamed stack, project or cf-rag:rag.name has to be named back; other dims "
            "or another metric need the next embedding.generation",
        )
        for key in _FIXED
        if key in old and old[key] != wanted[key]
    ]


def _unfit(found: vectorize.Index, new: IndexInputs) -> str | None:
    """Why an existing index can't be used as the wanted one."""
    if (found.dims, found.metric) != (new.dims, new.metric):
        return (
            f"index {found.name} exists with {found.dims} dims and metric {found.metric}, not the wanted "
            f"{new.dims} and {new.metric}: an index can't be converted. Delete it, or use another name "
            f"or generation"
        )
    if found.description == vectorize.description_of(new.owner, new.generation) or new.adopt:
        return None
    owner = found.owner or f"something else (its description: {found.description!r})"
    return (
        f"index {found.name} exists and belongs to {owner}, not to {new.owner}: set cf-rag:rag.adopt: true "
        "if it shall become this stack's"
    )


async def _lost_as_far_as_known(call: Call, new: IndexInputs) -> str | None:
    """As `_lost`: a preview whose token reads only may not ask the database, and an update asks again."""
    try:
        return await _lost(call, new)
    except ApiFailure as failure:
        await call.warn(f"whether documents are lost with index {new.name} can't be read now ({failure})")
        return None


async def _lost(call: Call, new: IndexInputs) -> str | None:
    """Why a missing index may not be made again: nobody would notice that its documents are gone."""
    if os.environ.get(CREATE_BY_NAME) == new.name:
        return None
    count = await outside.lost_documents(call, new.database, new.generation)
    if not count:
        return None
    return (
        f"index {new.name} does not exist any more, and with it the content of {ending.documents(count)} "
        f"that database {new.database} knows: made again it would be empty. Have the documents at hand "
        f"(a backup, or their ids: GET /v1/docs), then run `pulumi up` with {CREATE_BY_NAME}={new.name}: "
        "that makes it empty, and no ingest of a document is skipped any more"
    )


async def _take_up(call: Call, new: IndexInputs, failure: ApiFailure) -> str:
    found = await vectorize.get_index(call, new.name)
    if found is None:
        raise failure
    if reason := _unfit(found, new):
        raise CfragError(reason)
    await call.info(f"took up the existing index {new.name}")
    if found.owner not in (None, new.owner):
        await call.warn(f"index {new.name} was made by {found.owner}, which must not manage it any more")
    return found.description


async def _locked(call: Call, name: str, state: Values, count: int) -> str | None:
    """Why an index may not be deleted; an empty one always may."""
    deletion = state.get("deletion", "protected")
    if count == 0 or deletion == "allowed" or os.environ.get(DELETE_BY_NAME) == name:
        return None
    if deletion != "when-replaced":
        return f"index {name} holds {count:,} vectors and is protected; {way_out(name)}"
    if hold := await _held(call, state):
        return (
            f"index {name} holds {count:,} vectors and is kept for now: {hold.reason}. Run `pulumi up` "
            f"again in a minute; to delete it nevertheless, run it with {DELETE_BY_NAME}={name}"
        )
    return None


def way_out(index: str) -> str:
    """How an index with data can be deleted on purpose."""
    return (
        "to lose it, set cf-rag:rag.allowDataLoss: true and run `pulumi up` first, or name it: run with "
        f"{DELETE_BY_NAME}={index}"
    )


async def _held(call: Call, state: Values) -> ending.Hold | None:
    """What keeps a replaced index; the Worker that was just deployed gets time to take over."""
    database, generation = str(state.get("database", "")), int(state["generation"])
    hold: ending.Hold | None = None

    async def decided() -> bool:
        nonlocal hold
        hold = await ending.hold(call, database, generation)
        return hold is None or not hold.passing

    waiting = f"waiting until no document needs index {state['name']}"
    await poll(call, decided, seconds=TAKE_OVER_SECONDS, interval=1, waiting=waiting)
    return hold
