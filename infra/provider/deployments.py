"""Whom a Worker's requests go to, and whether somebody put an earlier version back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from infra.provider.account import ApiFailure
from infra.provider.base import Call

if TYPE_CHECKING:
    from cloudflare import Cloudflare


class Deployment(NamedTuple):
    """Shares of a Worker's requests in per cent by version, and since when (ISO 8601, UTC)."""

    shares: Mapping[str, float]
    since: str

    @property
    def versions(self) -> frozenset[str]:
        """Ids of the versions that got requests."""
        return frozenset(self.shares)


async def listed(call: Call, worker: str) -> list[Deployment]:
    """Those of a Worker, newest first; none where there is no such Worker."""

    def ask(client: Cloudflare) -> Any:
        # The SDK's own method looks for pages, which this endpoint doesn't have.
        path = f"/accounts/{call.account.id}/workers/scripts/{worker}/deployments"
        return client.get(path, cast_to=object)

    try:
        answer = await call.account.call(f"list the deployments of Worker {worker}", ask)
    except ApiFailure as failure:
        if failure.missing:
            return []
        raise
    found = [
        Deployment(
            {str(one["version_id"]): float(one["percentage"]) for one in each["versions"]},
            str(each["created_on"]),
        )
        for each in answer["result"]["deployments"]
    ]
    return sorted(found, key=lambda each: each.since, reverse=True)


async def others(call: Call, worker: str, version: str) -> str | None:
    """The versions that get a Worker's requests, where that is not this one alone; None where none does."""
    now = next(iter(await listed(call, worker)), None)
    if now is None or now.versions == {version}:
        return None
    return ", ".join(f"{each} ({share:g} %)" for each, share in sorted(now.shares.items()))


def replaced_by_an_earlier_one(found: Sequence[Deployment]) -> Deployment | None:
    """The deployment that a rollback ended, whoever did it; None where what runs never ran before that."""
    if len(found) < 3:
        return None
    now, before, *earlier = found
    again = now.versions != before.versions and any(each.versions == now.versions for each in earlier)
    return before if again else None


async def warn_of_rollback(call: Call, worker: str) -> None:
    """Tell whoever is about to deploy a new version that an earlier one was put back on purpose."""
    found = await listed(call, worker)
    if ended := replaced_by_an_earlier_one(found):
        await call.warn(
            f"{worker} was rolled back at {found[0].since[:16].replace('T', ' ')} UTC, from version "
            f"{_short(ended)} to {_short(found[0])}. This deploys what the config says now, also what was "
            "rolled back, unless the config has taken it back"
        )


def _short(deployment: Deployment) -> str:
    return " and ".join(sorted(each[:8] for each in deployment.versions))
