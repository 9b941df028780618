"""Metadata indexes: waited for, compared, never turned into another type over data."""

import asyncio
from collections.abc import Iterator

import pytest

from infra.errors import CfragError
from infra.provider import vectorize
from infra.provider.base import Call
from infra.provider.serving import PartialFailure
from infra.provider.values import Values, to_plain_map
from tests.provider.support import Direct, LocalCloudflare

KIND = "VectorizeMetadataIndex"


def wanted(index: str, name: str = "tags", kind: str = "string", **changes: object) -> Values:
    return {"index": index, "propertyName": name, "indexType": kind, **changes}


@pytest.fixture
def slow(cloudflare: LocalCloudflare) -> Iterator[None]:
    """Vectorize takes two seconds to process a change."""
    cloudflare.control("PUT", "/__local/settings", {"vectorizeDelaySeconds": 2})
    yield
    cloudflare.control("PUT", "/__local/settings", {"vectorizeDelaySeconds": 0})


async def test_a_created_one_is_in_effect(direct: Direct, cloudflare: LocalCloudflare) -> None:
    index = cloudflare.index("meta-made")
    made, state = await direct.create(KIND, wanted(index))
    assert made == "meta-made/tags"
    assert (await direct.read(KIND, made, state)) == state | {"waitSeconds": 300}


async def test_in_an_index_of_the_same_run_none_is_looked_for(
    direct: Direct, cloudflare: LocalCloudflare, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    listed = vectorize.metadata_indexes

    async def noted(call: Call, index: str) -> dict[str, str] | None:
        looked.append(index)
        return await listed(call, index)

    monkeypatch.setattr(vectorize, "metadata_indexes", noted)
    space = {"dims": 384, "metric": "cosine", "generation": 1, "owner": "cfrag:shop/calls"}
    await direct.create("VectorizeIndex", space | {"name": "meta-calls", "database": "calls-db"})
    for index in ("meta-calls", cloudflare.index("meta-older")):
        assert await direct.check(KIND, wanted(index)) == {}
        await direct.create(KIND, wanted(index))
    assert looked == ["meta-older", "meta-older"]
    made = cloudflare.client.vectorize.indexes.metadata_index.list(
        "meta-calls", account_id=cloudflare.account
    )
    assert made
    assert [each.property_name for each in made.metadata_indexes or ()] == ["tags"]


async def test_creation_waits_until_it_is_processed(
    direct: Direct, cloudflare: LocalCloudflare, slow: None
) -> None:
    index = cloudflare.index("meta-slow")
    await direct.create(KIND, wanted(index, waitSeconds=30))
    info = cloudflare.client.vectorize.indexes.info(index, account_id=cloudflare.account)
    assert info is not None
    assert info.processed_up_to_mutation
    assert any(line.startswith("waiting until tags is indexed") for line in direct.messages.lines)


async def test_one_that_takes_too_long_is_kept_and_waited_for_again(
    direct: Direct, cloudflare: LocalCloudflare, slow: None
) -> None:
    inputs = wanted(cloudflare.index("meta-late"), waitSeconds=1)
    with pytest.raises(PartialFailure, match="not processed within 1 s") as late:
        await direct.create(KIND, inputs)
    assert late.value.resource_id == "meta-late/tags"
    state = to_plain_map(late.value.properties)
    assert state["mutationId"]
    updated = await direct.update(KIND, late.value.resource_id, state, inputs | {"waitSeconds": 30})
    assert updated["mutationId"] == state["mutationId"]


async def test_the_one_of_a_killed_run_is_taken_up_again(direct: Direct, cloudflare: LocalCloudflare) -> None:
    index = cloudflare.index("meta-killed")
    await direct.create(KIND, wanted(index))
    assert (await direct.create(KIND, wanted(index)))[0] == "meta-killed/tags"


async def test_an_existing_one_of_another_type_is_refused(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    index = cloudflare.index("meta-other")
    await direct.create(KIND, wanted(index))
    with pytest.raises(CfragError, match="as string, not as number"):
        await direct.create(KIND, wanted(index, kind="number"))


async def test_types_are_compared_without_regard_to_case(direct: Direct) -> None:
    new = await direct.checked(KIND, wanted("meta-case", kind="Number"))
    assert new["indexType"] == "number"
    assert not (await direct.diff(KIND, wanted("meta-case", kind="Number"), new)).changes


async def test_another_type_replaces_and_deletes_first(direct: Direct) -> None:
    diff = await direct.diff(KIND, wanted("meta-diff"), wanted("meta-diff", kind="number"))
    assert (diff.replaces, diff.delete_before_replace) == (["indexType"], True)


async def test_another_type_over_vectors_is_refused(direct: Direct, cloudflare: LocalCloudflare) -> None:
    index = cloudflare.index("meta-full", vectors=2)
    reasons = await direct.check(KIND, wanted(index, kind="number"), wanted(index))
    assert "indexed as string in meta-full, where 2 vectors live" in reasons["indexType"]
    empty = cloudflare.index("meta-empty")
    assert await direct.check(KIND, wanted(empty, kind="number"), wanted(empty)) == {}


async def test_a_deleted_one_can_be_made_again_at_once(
    direct: Direct, cloudflare: LocalCloudflare, slow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if nothing else were processed for long: the deletion in the same second is no sign of the creation.
    monkeypatch.setattr(vectorize, "_QUIET_SECONDS", 0.0)
    index = cloudflare.index("meta-again")
    made, state = await direct.create(KIND, wanted(index))
    await direct.delete(KIND, made, state)
    assert await direct.read(KIND, made) is None
    await direct.create(KIND, wanted(index, kind="number"))
    assert (await direct.read(KIND, made) or {})["indexType"] == "number"


async def test_deleting_what_is_gone_is_no_error(direct: Direct) -> None:
    await direct.delete(KIND, "meta-never/tags", wanted("meta-never"))


async def test_an_index_that_is_missing_is_named(direct: Direct) -> None:
    with pytest.raises(CfragError, match="index meta-none does not exist"):
        await direct.create(KIND, wanted("meta-none"))


async def test_an_unknown_type_is_refused(direct: Direct) -> None:
    assert "indexType" in await direct.check(KIND, wanted("meta-type", kind="date"))


async def test_those_made_at_the_same_time_wait_no_longer_than_one(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    index = cloudflare.index("meta-many")
    loop = asyncio.get_running_loop()
    started = loop.time()
    await asyncio.gather(*(direct.create(KIND, wanted(index, f"field_{n}")) for n in range(8)))
    assert loop.time() - started < 2
    listed = cloudflare.client.vectorize.indexes.metadata_index.list(index, account_id=cloudflare.account)
    assert len((listed.metadata_indexes if listed else None) or ()) == 8
