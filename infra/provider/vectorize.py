"""Vectorize over the REST API: the calls that several resources share."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from infra.provider.account import ApiFailure
from infra.provider.base import Call, poll

if TYPE_CHECKING:
    from cloudflare import Cloudflare

# The Date header of an answer is cut to whole seconds.
_DATE_RESOLUTION = timedelta(seconds=1)
_QUIET_SECONDS = 3.0
_OWNER = re.compile(r"(?P<owner>cfrag:.+)/g(?P<generation>\d+)")


@dataclass(frozen=True)
class Index:
    """An index as Vectorize describes it."""

    name: str
    dims: int
    metric: str
    description: str

    @property
    def owner(self) -> str | None:
        """The stack that made it, `cfrag:<project>/<stack>`; None where something else did."""
        return owner_in(self.description)

    @property
    def generation(self) -> int | None:
        """The generation that its owner gave it."""
        match = _OWNER.fullmatch(self.description)
        return int(match["generation"]) if match else None


@dataclass(frozen=True)
class Mutation:
    """An accepted change that is not processed yet; `submitted` by the server's clock."""

    id: str
    submitted: datetime


def owner_in(description: str) -> str | None:
    """Who made an index, by its description; None for one that says nothing of the kind."""
    match = _OWNER.fullmatch(description)
    return match["owner"] if match else None


def description_of(owner: str, generation: int) -> str:
    """What an index says about who made it."""
    return f"{owner}/g{generation}"


async def get_index(call: Call, name: str) -> Index | None:
    """The index, or None where there is none (deleted ones answer 404 or 410)."""

    def get(client: Cloudflare) -> Any:
        return client.vectorize.indexes.get(name, account_id=call.account.id)

    try:
        return _index(await call.account.call(f"read Vectorize index {name}", get))
    except ApiFailure as failure:
        if failure.missing:
            return None
        raise


async def owned_indexes(call: Call, owner: str) -> list[Index]:
    """The indexes that `owner` made, by generation."""

    def listed(client: Cloudflare) -> list[Any]:
        return list(client.vectorize.indexes.list(account_id=call.account.id))

    found = [_index(item) for item in await call.account.call("list the Vectorize indexes", listed)]
    return sorted((index for index in found if index.owner == owner), key=lambda each: each.generation or 0)


async def vector_count(call: Call, name: str) -> int | None:
    """How many vectors the index holds, or None where there is no such index."""
    try:
        info = await call.account.call(f"read the size of Vectorize index {name}", _info(call, name))
    except ApiFailure as failure:
        if failure.missing:
            return None
        raise
    return info.vector_count or 0


@dataclass(frozen=True)
class IdPage:
    """Ids of an index's vectors, and the cursor of the next page."""

    ids: list[str]
    cursor: str | None


async def list_ids(call: Call, index: str, *, count: int, cursor: str | None = None) -> IdPage:
    """At most `count` (1 to 1,000) ids from `cursor` on; none where the index is gone."""
    params = {"count": str(count)} | ({"cursor": cursor} if cursor else {})

    def listed(client: Cloudflare) -> Any:
        path = f"/accounts/{call.account.id}/vectorize/v2/indexes/{index}/list"
        return client.get(path, cast_to=object, options={"params": params})

    try:
        answer = await call.account.call(f"list the vectors of {index}", listed)
    except ApiFailure as failure:
        if failure.missing:
            return IdPage([], None)
        raise
    result = answer["result"]
    following = result.get("nextCursor") if result.get("isTruncated") else None
    return IdPage([str(each["id"]) for each in result["vectors"]], following)


async def get_vectors(call: Call, index: str, ids: list[str]) -> list[dict[str, Any]]:
    """Vectors by id, at most 20; unknown ids are left out."""

    def get(client: Cloudflare) -> Any:
        return client.vectorize.indexes.get_by_ids(index, account_id=call.account.id, ids=ids)

    found = await call.account.call(f"read vectors of {index}", get)
    return list(found or ())


async def metadata_indexes(call: Call, index: str) -> dict[str, str] | None:
    """Types by property name, in lower case; None where the index is gone."""

    def listed(client: Cloudflare) -> Any:
        return client.vectorize.indexes.metadata_index.list(index, account_id=call.account.id)

    try:
        answer = await call.account.call(f"list the metadata indexes of {index}", listed)
    except ApiFailure as failure:
        if failure.missing:
            return None
        raise
    return {
        str(item.property_name): str(item.index_type).lower()
        for item in (answer.metadata_indexes if answer else None) or ()
    }


def mutation_of(response: Any) -> Mutation:
    """The mutation that a raw answer announces."""
    date = response.headers.get("date")
    submitted = parsedate_to_datetime(date) if date else datetime.now(UTC)
    return Mutation(response.parse().mutation_id or "", submitted)


async def wait_processed(call: Call, index: str, mutation: Mutation, seconds: float, waiting: str) -> bool:
    """Wait until `index` has processed `mutation`; False after `seconds`.

    A later mutation may overtake it in `processedUpToMutation`: one of this plugin's own is known by its
    place in the order; for another, a processing time after the submission counts as well, and in the very
    second of the submission, whose order can't be told, that nothing more is processed for a while. A new
    index has neither.
    """
    quiet = _Quiet()

    async def processed() -> bool:
        info = await call.account.call(f"read the state of Vectorize index {index}", _info(call, index))
        last, reached = info.processed_up_to_mutation, info.processed_up_to_datetime
        if last in call.account.submissions.since(index, mutation.id):
            return True
        if last in call.account.submissions.before(index, mutation.id):
            # Known to be older, however long nothing else has been processed.
            return False
        if reached is None or reached < mutation.submitted:
            return False
        still = quiet.seconds(last)
        return reached > mutation.submitted + _DATE_RESOLUTION or still > _QUIET_SECONDS

    return await poll(call, processed, seconds=seconds, interval=0.25, waiting=waiting)


class _Quiet:
    """For how long a value has been the same."""

    def __init__(self) -> None:
        self._value: object = None
        self._since = 0.0

    def seconds(self, value: object) -> float:
        now = time.monotonic()
        if value != self._value:
            self._value, self._since = value, now
        return now - self._since


def _info(call: Call, index: str) -> Callable[[Cloudflare], Any]:
    return lambda client: client.vectorize.indexes.info(index, account_id=call.account.id)


def _index(item: Any) -> Index:
    return Index(
        name=str(item.name),
        dims=int(item.config.dimensions),
        metric=str(item.config.metric),
        description=item.description or "",
    )
