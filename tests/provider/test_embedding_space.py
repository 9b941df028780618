"""The gate where it has to find out by itself what is deployed."""

import json

import pytest

from infra.provider.values import Values
from tests.provider.support import Direct, LocalCloudflare

KIND = "EmbeddingSpace"
BASE, LARGE = "@cf/baai/bge-base-en-v1.5", "@cf/baai/bge-large-en-v1.5"


def wanted(stack: str, dims: int = 768, model: str = BASE, generation: int = 1, **changes: object) -> Values:
    return {
        "owner": f"cfrag:shop/{stack}",
        "database": f"{stack}-db",
        "index": f"{stack}-{dims}-g{generation}",
        "model": model,
        "dims": dims,
        "metric": "cosine",
        "generation": generation,
        **changes,
    }


def replacing(stack: str) -> Values:
    return {
        "generation": 1,
        "model": BASE,
        "dims": 768,
        "metric": "cosine",
        "index": f"{stack}-768-g1",
        "strategy": "reindex",
    }


def deploy(cloudflare: LocalCloudflare, stack: str, *, vectors: int = 0, told: bool = True) -> None:
    """A stack at 768 dims whose state the engine doesn't have."""
    cloudflare.index(f"{stack}-768-g1", description=f"cfrag:shop/{stack}/g1", vectors=vectors)
    space = json.dumps({"generation": 1, "model": BASE, "dims": 768, "fingerprint": f"{BASE}#1"})
    rows = [f"INSERT INTO meta VALUES ('space', '{space}')"] if told else []
    rows.append("CREATE TABLE documents(id TEXT, deleted_at INTEGER)")
    cloudflare.database(f"{stack}-db", "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT)", *rows)


async def test_a_new_stack_passes(direct: Direct) -> None:
    assert await direct.check(KIND, wanted("fresh")) == {}


async def test_a_new_stack_has_nothing_to_replace(direct: Direct) -> None:
    reasons = await direct.check(KIND, wanted("new", 1024, LARGE, 2, replacing=replacing("new")))
    assert "no data to replace" in reasons["replacing"]


@pytest.mark.parametrize("told", [True, False], ids=["by D1", "by the index"])
async def test_other_dims_are_refused_by_what_the_data_is(
    direct: Direct, cloudflare: LocalCloudflare, told: bool
) -> None:
    stack = f"lost-{told}".lower()
    deploy(cloudflare, stack, vectors=3, told=told)
    assert await direct.check(KIND, wanted(stack)) == {}
    reason = (await direct.check(KIND, wanted(stack, 1024, LARGE)))["dims"]
    assert "dims 768 -> 1024" in reason
    assert f"3 vectors live in {stack}-768-g1" in reason


async def test_another_generation_is_refused_by_what_the_data_is(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    deploy(cloudflare, "skipping")
    assert "generation" in await direct.check(KIND, wanted("skipping", generation=2))


async def test_another_metric_is_refused_by_what_the_index_is(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    deploy(cloudflare, "metric")
    assert (
        "metric cosine -> euclidean"
        in (await direct.check(KIND, wanted("metric", metric="euclidean")))["metric"]
    )


async def test_the_data_speaks_although_its_index_was_deleted(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    deploy(cloudflare, "gone")
    cloudflare.client.vectorize.indexes.delete("gone-768-g1", account_id=cloudflare.account)
    assert "dims" in await direct.check(KIND, wanted("gone", 1024, LARGE))


async def test_a_replacement_that_names_the_data_is_granted_without_a_state(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    deploy(cloudflare, "named", vectors=2)
    new = wanted("named", 1024, LARGE, 2, replacing=replacing("named"))
    assert await direct.check(KIND, new) == {}
    assert any("2 vectors live in named-768-g1" in line for line in direct.messages.lines)


async def test_a_replacement_under_way_stays_granted_without_a_state(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    deploy(cloudflare, "busy")
    cloudflare.index("busy-1024-g2", 1024, description="cfrag:shop/busy/g2")
    assert await direct.check(KIND, wanted("busy", 1024, LARGE, 2, replacing=replacing("busy"))) == {}


async def test_an_index_of_another_stack_says_nothing_about_this_one(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    deploy(cloudflare, "neighbour")
    assert await direct.check(KIND, wanted("neighbour-b", 1024, LARGE)) == {}


@pytest.mark.parametrize("key", ["owner", "database"])
async def test_a_rename_that_would_leave_the_data_behind_is_refused(direct: Direct, key: str) -> None:
    reasons = await direct.check(KIND, wanted("renamed") | {key: "other"}, wanted("renamed"))
    assert "name it back" in reasons["owner"]


async def test_the_spaces_that_may_exist_are_told(direct: Direct) -> None:
    _, state = await direct.create(KIND, wanted("told", 1024, LARGE, 2, replacing=replacing("told")))
    assert state["spaces"] == ["g2/1024/cosine", "g1/768/cosine"]
