"""`SpaceActivation`: tells the data which space it should be in, and starts the sweep to it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from infra.errors import CfragError
from infra.provider import d1, ending, outside, vectorize
from infra.provider.base import Call, Found, Inputs, Resource
from infra.provider.resources.vectorize_index import DELETE_BY_NAME
from infra.provider.values import Values

if TYPE_CHECKING:
    from cloudflare import Cloudflare

FINGERPRINT = "desired_fingerprint"
GENERATION = "desired_generation"
SCHEMA = "desired_schema"
_WRITE = "INSERT INTO meta(key, value) VALUES {} ON CONFLICT(key) DO UPDATE SET value = excluded.value"
DELETE_DATABASE = "CFRAG_DELETE_DATABASE"
"""Environment variable that names, by its id, a database whose loss is wanted."""
SWEEP = {"kind": "sweep", "cursor": ""}


class ActivationInputs(Inputs):
    """The wanted space, its index, and the revision of its metadata indexes.

    `version_id` makes every new Worker version sweep once, and so does a metadata index that is made again:
    `indexed` has the mutations that made them, by the resources' names.
    """

    database_id: str
    queue_id: str
    fingerprint: str
    generation: int = Field(ge=1)
    schema_revision: str | None = None
    version_id: str | None = None
    index: str | None = None
    indexed: dict[str, str] = Field(default_factory=dict)
    deletion: Literal["protected", "allowed"] = "protected"


class SpaceActivation(Resource[ActivationInputs]):
    """Two rows in D1 and one message, after everything else is in place."""

    token = "cfrag:index:SpaceActivation"
    model = ActivationInputs

    async def create(self, call: Call, new: ActivationInputs) -> tuple[str, Values]:
        """Write what is wanted and push one sweep message."""
        await _recover(call, new)
        await activate(call, new)
        return new.database_id, {}

    async def read(self, call: Call, resource_id: str, state: Values) -> Found | None:
        """What D1 says is wanted."""
        values = await d1.meta(call, resource_id)
        if values is None or FINGERPRINT not in values:
            return None
        seen = {"fingerprint": values[FINGERPRINT], "generation": int(values.get(GENERATION, "1"))}
        found = state | seen | {"databaseId": resource_id, "schemaRevision": values.get(SCHEMA)}
        return Found(found, found)

    async def update(self, call: Call, resource_id: str, old: Values, new: ActivationInputs) -> Values:
        """As `create`: both steps can be repeated."""
        if any(old.get(key) != value for key, value in _watched(new)):
            await activate(call, new)
        return {}

    async def delete(self, call: Call, resource_id: str, state: Values) -> None:
        """Refuse the end of a stack that holds data.

        What depends on nothing else goes first, so this is where `pulumi destroy --skip-preview` has touched
        nothing yet; the index and the database, which are protected too, would be the last ones.
        """
        if state.get("deletion") == "allowed":
            return
        index, database = state.get("index"), str(state.get("databaseId", resource_id))
        if held := [reason async for reason in _held(call, database, index)]:
            named = f"{DELETE_BY_NAME}={index} {DELETE_DATABASE}={database}" if index else DELETE_DATABASE
            raise CfragError(
                f"nothing was deleted: {' and '.join(held)}; to lose that, set cf-rag:rag.allowDataLoss: "
                f"true and run `pulumi up` first, or name it: run with {named}"
            )


async def _held(call: Call, database: str, index: str | None) -> AsyncIterator[str]:
    """What a stack would lose and nobody has named: vectors, and what its database says of documents."""
    if index and os.environ.get(DELETE_BY_NAME) != index:
        count = await vectorize.vector_count(call, index)
        if count is not None:
            yield f"this stack's index {index} holds {count:,} vectors"
    if os.environ.get(DELETE_DATABASE) != database and (count := await outside.documents(call, database)):
        yield f"its database {database} knows {ending.documents(count)}"


async def _recover(call: Call, new: ActivationInputs) -> None:
    """A new database of an index with documents: what it has to know is read from the vectors."""
    if not new.index:
        return
    made = await outside.rows_from_vectors(call, new.database_id, new.index, new.schema_revision)
    if made:
        await call.warn(
            f"the database knew nothing of {ending.documents(made)} in index {new.index}: they are looked "
            "through and embedded again; API keys of a lost database have to be made anew"
        )


def _watched(new: ActivationInputs) -> list[tuple[str, Any]]:
    values = new.model_dump(by_alias=True, exclude_none=True)
    return [(key, value) for key, value in values.items() if key not in ("index", "deletion") and value != {}]


async def activate(call: Call, new: ActivationInputs) -> None:
    """Write the wanted fingerprint and generation, then wake the consumer."""
    wanted = {FINGERPRINT: new.fingerprint, GENERATION: str(new.generation), SCHEMA: new.schema_revision}
    rows = [(key, value) for key, value in wanted.items() if value is not None]
    sql = _WRITE.format(", ".join("(?, ?)" for _ in rows))
    doing = "write the wanted embedding space to the database"
    await d1.query(call, new.database_id, doing, sql, *(text for row in rows for text in row))

    def push(client: Cloudflare) -> Any:
        return client.queues.messages.push(
            new.queue_id, account_id=call.account.id, body=SWEEP, content_type="json"
        )

    await call.account.call("push the first sweep message", push)
