"""`EmbeddingSpace`: the space that a stack's data lives in, and the gate in front of any change."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from infra.catalog import VECTORIZE_DIMENSIONS
from infra.errors import CfragError
from infra.provider import d1, ending, outside, vectorize
from infra.provider.base import Call, CheckFailure, Found, Inputs, Resource
from infra.provider.gate import (
    KEY,
    Refusal,
    Replacing,
    Space,
    Wish,
    embedding_setting,
    judge,
    replacing_setting,
)
from infra.provider.values import Values


class SpaceInputs(Inputs):
    """What the config says about the space; `index` and `database` are names."""

    owner: str
    database: str
    index: str
    model: str
    pooling: str | None = None
    dims: int = Field(ge=1, le=VECTORIZE_DIMENSIONS.value)
    metric: str
    generation: int = Field(ge=1)
    replacing: Replacing | None = None


class EmbeddingSpace(Resource[SpaceInputs]):
    """Nothing on Cloudflare: what a stack is sure of, and the check that everything else depends on."""

    token = "cfrag:index:EmbeddingSpace"
    model = SpaceInputs
    outputs = ("spaces",)
    described: ClassVar[dict[str, Any]] = {"spaces": list[str]}
    volatile: ClassVar[frozenset[str]] = frozenset({"spaces"})

    async def check(self, call: Call, new: SpaceInputs, old: Values | None) -> list[CheckFailure]:
        """Refuse a change that was not asked for by name; announce one that was."""
        wanted = Wish.of(new.model_dump(by_alias=True, exclude_none=True))
        renamed = _renamed(new, old or {})
        deployed = Wish.of(old) if old else await _from_data(call, new, wanted)
        if deployed is None:
            return _nothing_to_replace(wanted)
        refusal = (
            judge(deployed, wanted)
            or await ending.unready(call, new.database, deployed, wanted)
            or await _left_over(call, deployed, wanted)
            or await _unknown_content(call, new.database, deployed, wanted)
        )
        if refusal is not None:
            return [CheckFailure(refusal.setting, await _message(call, refusal)), *renamed]
        await _announce(call, new, deployed, wanted)
        return renamed

    def planned(self, new: Values, old: Values | None) -> Values:
        """The spaces that may exist, known at once."""
        return _spaces(new)

    async def create(self, call: Call, new: SpaceInputs) -> tuple[str, Values]:
        """Remember the space in the state."""
        return new.owner, _spaces(new.model_dump(by_alias=True, exclude_none=True))

    async def read(self, call: Call, resource_id: str, state: Values) -> Found | None:
        """The state is all there is; an import makes no sense, since the config says the same."""
        if not state:
            return None
        fields = {item.alias or name for name, item in SpaceInputs.model_fields.items()}
        return Found(state, {key: value for key, value in state.items() if key in fields})

    async def update(self, call: Call, resource_id: str, old: Values, new: SpaceInputs) -> Values:
        """Remember the change that the check has granted."""
        return _spaces(new.model_dump(by_alias=True, exclude_none=True))


def _spaces(values: Values) -> Values:
    wish = Wish.of(values)
    return {"spaces": [wish.space.key, *([wish.replaced.key] if wish.replaced else [])]}


async def _from_data(call: Call, new: SpaceInputs, wanted: Wish) -> Wish | None:
    """What is deployed, where the state doesn't know: from D1, else from the stack's indexes."""
    indexes = await vectorize.owned_indexes(call, new.owner)
    database = await d1.find_database(call, new.database)
    told = d1.space_of((await d1.meta(call, database) or {}) if database else {})
    known = [Space(index.generation or 1, None, index.dims, index.metric, index.name) for index in indexes]
    if told:
        same = next((each for each in known if each.generation == int(told["generation"])), None)
        metric, name = (same.metric, same.index) if same else (new.metric, "")
        space = Space(int(told["generation"]), told.get("model"), int(told["dims"]), metric, name)
    elif known:
        # Without a document, whatever index is wanted and exists is as good as another.
        space = next((each for each in known if each.key == wanted.space.key), known[0])
    else:
        return None
    return _under_way(space, known, wanted)


def _under_way(space: Space, known: list[Space], wanted: Wish) -> Wish:
    """`space`, or the replacement that the config names and that has both its indexes already."""
    keys = {each.key for each in known} | {space.key}
    replaced = wanted.replaced
    if replaced is None or not {wanted.space.key, replaced.key} <= keys:
        return Wish(space)
    return wanted if space.key in (wanted.space.key, replaced.key) else Wish(space)


def _renamed(new: SpaceInputs, old: Values) -> list[CheckFailure]:
    """A refusal where the names say that the data should be another stack's."""
    before = (old.get("owner", new.owner), old.get("database", new.database))
    if before == (new.owner, new.database):
        return []
    reason = (
        f"this stack's data is in database {before[1]} of {before[0]}, and a renamed stack, project or "
        f"{KEY}.name "
        f"would leave it behind for {new.database} of {new.owner}: name it back, or make a new stack"
    )
    return [CheckFailure("owner", reason)]


def _nothing_to_replace(wanted: Wish) -> list[CheckFailure]:
    if wanted.replaced is None:
        return []
    reason = f"replacing names generation {wanted.replaced.generation}, but this stack has no data to replace"
    return [CheckFailure("replacing", f"{reason}; remove {KEY}.replacing")]


async def _message(call: Call, refusal: Refusal) -> str:
    stake = await _stake(call, refusal.at_stake)
    return f"refused: {refusal.reason}{stake}. Nothing was touched: {refusal.way_out}."


async def _stake(call: Call, index: str | None) -> str:
    if not index:
        return ""
    try:
        count = await vectorize.vector_count(call, index)
    except CfragError as error:
        return f"; how many vectors live in {index} can't be read now ({error})"
    if count is None:
        return f"; index {index} doesn't exist any more"
    return f"; {count:,} vectors live in {index}"


async def _left_over(call: Call, deployed: Wish, wanted: Wish) -> Refusal | None:
    """The refusal of a start in an index that an earlier, aborted one has filled.

    Deletes have not reached it since: it may hold what nobody has any more.
    """
    if wanted.replaced is None or deployed.replaced is not None:
        return None
    index = wanted.space.index
    if not await vectorize.vector_count(call, index):
        return None
    return Refusal(
        "generation",
        f"index {index} is left of a replacement that was aborted",
        f"run `pulumi up` with {KEY}.embedding: {embedding_setting(deployed.space)} and without replacing, "
        "which deletes it, then start again",
        index,
    )


async def _unknown_content(call: Call, database: str, deployed: Wish, wanted: Wish) -> Refusal | None:
    """The refusal of all but an abort, where nothing says any more which space holds which document."""
    old = deployed.replaced
    if old is None or deployed.strategy == "discard" or wanted.space.key != deployed.space.key:
        return None
    if await d1.find_database(call, database) or not await vectorize.vector_count(call, old.index):
        return None
    return Refusal(
        "replacing",
        f"database {database} is gone, and with it which documents are in generation "
        f"{wanted.space.generation} already",
        f"abort with {KEY}.embedding: {embedding_setting(old)} and without replacing, which makes the "
        f"database again from the vectors of generation {old.generation}, then start anew",
        old.index,
    )


async def _announce(call: Call, new: SpaceInputs, deployed: Wish, wanted: Wish) -> None:
    """Say what a change that is granted does to the documents."""
    old, replaced = deployed.space, wanted.replaced
    if replaced is not None:
        if deployed.replaced is None:
            await call.warn(await _replaces(call, new, wanted, replaced))
    elif deployed.replaced is not None:
        await call.warn(_ends(deployed.space, deployed.replaced, wanted.space))
    elif old.model not in (None, new.model):
        count = await _documents(call, new)
        await call.warn(
            f"{old.model} -> {new.model}: {count} will be embedded again, in place, in index {new.index}, "
            f"or stay as they are with {KEY}.embedding.autoReindex: false; until that is "
            "done, searches compare vectors of both models. Where that is not acceptable, use "
            f"the next embedding.generation and replacing: {replacing_setting(old, 'reindex')}"
        )


async def _replaces(call: Call, new: SpaceInputs, wanted: Wish, replaced: Space) -> str:
    count, stake = await _documents(call, new), await _stake(call, replaced.index)
    what = f"{count} will be embedded again and none is lost"
    if wanted.strategy == "discard":
        what = f"strategy discard: the content of {count} will be LOST, nothing is embedded again"
    return (
        f"generation {replaced.generation} ({replaced.dims} dims) is being replaced by generation "
        f"{wanted.space.generation} ({wanted.space.dims} dims){stake}; {what}"
    )


def _ends(new: Space, replaced: Space, wanted: Space) -> str:
    if wanted == new:
        return (
            f"finishing: generation {new.generation} is complete, and index {replaced.index} "
            f"of generation {replaced.generation} will be deleted"
        )
    return (
        f"aborting: back to generation {replaced.generation}; index {new.index} of generation "
        f"{new.generation} will be deleted, no document is lost"
    )


async def _documents(call: Call, new: SpaceInputs) -> str:
    """How many documents the stack has, in words."""
    try:
        database = await d1.find_database(call, new.database)
        count = await outside.documents(call, database) if database else None
    except CfragError as error:
        # A preview with a token that reads only may not ask the database; that is no reason against it.
        return f"every document (how many can't be read now: {error})"
    return "no document" if count is None else ending.documents(count)
