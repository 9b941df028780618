"""`VectorizeMetadataIndex`: makes a metadata property filterable before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from infra.errors import CfragError
from infra.provider import outside, vectorize
from infra.provider.account import ApiFailure
from infra.provider.base import Call, Change, CheckFailure, Found, Inputs, NotReady, Resource
from infra.provider.values import Values

if TYPE_CHECKING:
    from cloudflare import Cloudflare

# Which mutation made an existing metadata index is not known; that none was processed yet would show.
_ANY = vectorize.Mutation("", datetime.fromtimestamp(0, UTC))
WAIT_SECONDS = 300
"""Default bound for a mutation to be processed: p99 is 2 minutes (changelog of 2026-06-30)."""


class MetadataIndexInputs(Inputs):
    """One property of one index; `database` is the name of the D1 database that says what the vectors are."""

    index: str
    property_name: str = Field(min_length=1)
    index_type: Literal["string", "number", "boolean"]
    wait_seconds: int = Field(default=WAIT_SECONDS, ge=1, le=3600)
    database: str | None = None

    @field_validator("index_type", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value  # the API may answer "String"

    @property
    def key(self) -> str:
        """The resource's id."""
        return f"{self.index}/{self.property_name}"


class VectorizeMetadataIndex(Resource[MetadataIndexInputs]):
    """Created and deleted through mutations, which are waited for."""

    token = "cfrag:index:VectorizeMetadataIndex"
    model = MetadataIndexInputs
    outputs = ("mutationId", "submittedAt")
    described: ClassVar[dict[str, Any]] = {"mutationId": str, "submittedAt": str}
    replace_on: ClassVar[frozenset[str]] = frozenset({"index", "propertyName", "indexType"})
    delete_before_replace = True
    uncompared: ClassVar[frozenset[str]] = frozenset({"waitSeconds", "database"})

    async def check(self, call: Call, new: MetadataIndexInputs, old: Values | None) -> list[CheckFailure]:
        """Refuse another type while vectors exist: they would be in no index until written again."""
        if old is None:
            existing = await _existing(call, new.index) or {}
            other = existing.get(new.property_name, new.index_type) != new.index_type
            return [CheckFailure("indexType", _unfit(new, existing[new.property_name]))] if other else []
        before = str(old.get("indexType", new.index_type)).lower()
        same = (old.get("index"), old.get("propertyName")) == (new.index, new.property_name)
        if not same or before == new.index_type:
            return []
        count = await vectorize.vector_count(call, new.index)
        if not count:
            return []
        reason = (
            f"{new.property_name} is indexed as {before} in {new.index}, where {count:,} vectors live; as "
            f"{new.index_type} none of them would be found. Use another field name, or the next "
            f"embedding.generation"
        )
        return [CheckFailure("indexType", reason)]

    def compare(self, old: Values, new: Values) -> Iterator[Change]:
        """Types are compared without regard to case."""
        return super().compare(old | {"indexType": str(old.get("indexType", "")).lower()}, new)

    async def create(self, call: Call, new: MetadataIndexInputs) -> tuple[str, Values]:
        """Create the metadata index, or take up an equal one, and wait until it is in effect."""
        existing = await _existing(call, new.index)
        if existing is None:
            raise CfragError(
                f"index {new.index} does not exist, so {new.property_name} can't be indexed in it"
            )
        if new.property_name in existing:
            mutation = _taken_up(new, existing[new.property_name])
        else:
            if await vectorize.vector_count(call, new.index):
                # They are in it only when they have been written once more.
                await outside.begin_indexing(call, new.database, new.key, new.index_type)
            mutation = await _change(call, new, "create")
        outputs = {"mutationId": mutation.id, "submittedAt": mutation.submitted.isoformat()}
        await _wait(call, new, mutation, outputs)
        return new.key, outputs

    async def read(self, call: Call, resource_id: str, state: Values) -> Found | None:
        """The metadata index as it is; the id of an import is `<index>/<property>`."""
        index, _, name = resource_id.partition("/")
        existing = await vectorize.metadata_indexes(call, index)
        if existing is None or name not in existing:
            return None
        inputs = {"index": index, "propertyName": name, "indexType": existing[name]}
        inputs["waitSeconds"] = state.get("waitSeconds", WAIT_SECONDS)
        if "database" in state:
            inputs["database"] = state["database"]
        return Found(state | inputs, inputs)

    async def update(self, call: Call, resource_id: str, old: Values, new: MetadataIndexInputs) -> Values:
        """Go on waiting, where an earlier run gave up."""
        if old.get("submittedAt"):
            submitted = datetime.fromisoformat(str(old["submittedAt"]))
            kept = {key: old[key] for key in self.outputs if key in old}
            await _wait(call, new, vectorize.Mutation(str(old.get("mutationId", "")), submitted), kept)
        return {}

    async def delete(self, call: Call, resource_id: str, state: Values) -> None:
        """Delete the metadata index and wait: one of the same name may follow at once."""
        inputs = MetadataIndexInputs(
            index=state["index"], property_name=state["propertyName"], index_type=state["indexType"]
        )
        existing = await vectorize.metadata_indexes(call, inputs.index)
        if existing is None or inputs.property_name not in existing:
            return
        mutation = await _change(call, inputs, "delete")
        waiting = f"waiting until {inputs.property_name} is gone from {inputs.index}"
        if not await vectorize.wait_processed(call, inputs.index, mutation, WAIT_SECONDS, waiting):
            raise CfragError(
                f"the deletion of {inputs.key} was not processed within {WAIT_SECONDS} s; run it again"
            )


async def _existing(call: Call, index: str) -> dict[str, str] | None:
    """Types by property name; None where the index is gone."""
    return {} if index in call.account.made else await vectorize.metadata_indexes(call, index)


def _taken_up(new: MetadataIndexInputs, found: str) -> vectorize.Mutation:
    if found != new.index_type:
        raise CfragError(_unfit(new, found))
    return _ANY


def _unfit(new: MetadataIndexInputs, found: str) -> str:
    return (
        f"{new.property_name} is indexed in {new.index} as {found}, not as {new.index_type}: delete that "
        "metadata index, or declare the field with its type"
    )


async def _change(
    call: Call, new: MetadataIndexInputs, what: Literal["create", "delete"]
) -> vectorize.Mutation:
    def change(client: Cloudflare) -> Any:
        raw = client.vectorize.indexes.metadata_index.with_raw_response
        if what == "delete":
            return raw.delete(new.index, account_id=call.account.id, property_name=new.property_name)
        return raw.create(
            new.index,
            account_id=call.account.id,
            property_name=new.property_name,
            index_type=new.index_type,
        )

    try:
        async with call.account.submissions.one_at_a_time(new.index):
            answer = await call.account.call(f"{what} metadata index {new.key}", change)
            mutation = vectorize.mutation_of(answer)
            call.account.submissions.add(new.index, mutation.id)
        return mutation
    except ApiFailure as failure:
        # A repeated call whose first answer was lost.
        existing = await vectorize.metadata_indexes(call, new.index) or {}
        if (new.property_name in existing) is not (what == "create"):
            raise failure
        return _ANY


async def _wait(call: Call, new: MetadataIndexInputs, mutation: vectorize.Mutation, outputs: Values) -> None:
    waiting = f"waiting until {new.property_name} is indexed in {new.index}"
    if not await vectorize.wait_processed(call, new.index, mutation, new.wait_seconds, waiting):
        late = "interrupted" if call.cancelled.is_set() else f"not processed within {new.wait_seconds} s"
        reason = (
            f"metadata index {new.key} was created but {late}: run `pulumi up` again, which goes on waiting"
        )
        raise NotReady(new.key, outputs, reason)
    if new.database and await vectorize.vector_count(call, new.index):
        await outside.end_indexing(call, new.database, new.key, new.index_type)
