"""Indexes: whose they are, what may change, and when they may go."""

import pytest

from infra.errors import CfragError
from infra.provider.values import Values
from tests.provider.support import Direct, LocalCloudflare

KIND = "VectorizeIndex"
OWNER = "cfrag:shop/dev"


def wanted(name: str, **changes: object) -> Values:
    return {"name": name, "dims": 768, "metric": "cosine", "generation": 1, "owner": OWNER, **changes}


async def test_an_index_is_made_with_its_owner_in_the_description(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    made, state = await direct.create(KIND, wanted("made"))
    found = cloudflare.client.vectorize.indexes.get("made", account_id=cloudflare.account)
    assert made == "made"
    assert found is not None
    assert found.description == state["description"] == "cfrag:shop/dev/g1"


async def test_the_index_of_a_killed_run_is_taken_up_again(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    cloudflare.index("killed", description=f"{OWNER}/g1")
    assert await direct.check(KIND, wanted("killed")) == {}
    assert (await direct.create(KIND, wanted("killed")))[0] == "killed"
    assert "took up the existing index killed" in direct.messages.lines


@pytest.mark.parametrize("description", ["", "cfrag:shop/prod/g1", "cfrag:shop/dev/g2", "by hand"])
async def test_an_index_of_somebody_else_is_refused(
    direct: Direct, cloudflare: LocalCloudflare, description: str
) -> None:
    name = cloudflare.index(f"foreign-{len(description)}-{description[-1:] or 'x'}", description=description)
    (reason,) = (await direct.check(KIND, wanted(name))).values()
    assert f"index {name} exists and belongs to" in reason
    assert "adopt" in reason
    with pytest.raises(CfragError, match="belongs to"):
        await direct.create(KIND, wanted(name))


async def test_an_index_of_somebody_else_is_adopted_when_asked(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    name = cloudflare.index("adopted", description="by hand")
    assert await direct.check(KIND, wanted(name, adopt=True)) == {}
    assert (await direct.create(KIND, wanted(name, adopt=True)))[1]["description"] == "by hand"


@pytest.mark.parametrize("adopt", [False, True])
async def test_an_index_of_other_dims_is_never_used(
    direct: Direct, cloudflare: LocalCloudflare, adopt: bool
) -> None:
    name = cloudflare.index(f"small-{adopt}".lower(), 384, description=f"{OWNER}/g1")
    (reason,) = (await direct.check(KIND, wanted(name, adopt=adopt))).values()
    assert "exists with 384 dims and metric cosine, not the wanted 768" in reason


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dims", 1024),
        ("metric", "euclidean"),
        ("name", "other"),
        ("generation", 2),
        ("owner", "cfrag:shop/prod"),
    ],
)
async def test_an_index_never_changes_in_place(direct: Direct, key: str, value: object) -> None:
    reasons = await direct.check(KIND, wanted("fixed") | {key: value}, wanted("fixed"))
    assert key in reasons
    assert str(value) in reasons[key]


async def test_a_space_that_the_gate_has_not_granted_is_refused(direct: Direct) -> None:
    reasons = await direct.check(KIND, wanted("ungranted", dims=1024, spaces=["g1/768/cosine"]))
    assert "g1/1024/cosine" in reasons["spaces"]
    assert "g1/768/cosine" in reasons["spaces"]


async def test_dims_over_the_limit_of_vectorize_are_refused(direct: Direct) -> None:
    assert "1536" in (await direct.check(KIND, wanted("huge", dims=2048)))["dims"]


async def test_a_deleted_index_is_read_as_missing(direct: Direct) -> None:
    assert await direct.read(KIND, "never-made") is None


async def test_an_import_finds_out_everything(direct: Direct, cloudflare: LocalCloudflare) -> None:
    cloudflare.index("imported", description=f"{OWNER}/g3")
    state = await direct.read(KIND, "imported")
    assert state == wanted(
        "imported", generation=3, deletion="protected", adopt=False, description=f"{OWNER}/g3"
    )


async def test_an_index_with_vectors_is_not_deleted(direct: Direct, cloudflare: LocalCloudflare) -> None:
    cloudflare.index("full", vectors=3)
    with pytest.raises(CfragError, match=r"index full holds 3 vectors and is protected") as refused:
        await direct.delete(KIND, "full", wanted("full", deletion="protected"))
    assert "allowDataLoss" in str(refused.value)
    assert cloudflare.client.vectorize.indexes.get("full", account_id=cloudflare.account)


@pytest.mark.parametrize("vectors", [0, 2])
async def test_an_index_that_may_go_is_deleted(
    direct: Direct, cloudflare: LocalCloudflare, vectors: int
) -> None:
    name = cloudflare.index(f"going-{vectors}", vectors=vectors)
    await direct.delete(KIND, name, wanted(name, deletion="allowed" if vectors else "protected"))
    assert await direct.read(KIND, name) is None
    await direct.delete(KIND, name, wanted(name))  # a second time is no error


async def test_an_index_named_in_the_environment_is_deleted(
    direct: Direct, cloudflare: LocalCloudflare, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = cloudflare.index("named", vectors=1)
    monkeypatch.setenv("CFRAG_DELETE_INDEX", "another")
    with pytest.raises(CfragError, match="CFRAG_DELETE_INDEX=named"):
        await direct.delete(KIND, name, wanted(name))
    monkeypatch.setenv("CFRAG_DELETE_INDEX", name)
    await direct.delete(KIND, name, wanted(name))
    assert await direct.read(KIND, name) is None


async def test_a_refused_token_is_explained(cloudflare: LocalCloudflare) -> None:
    with pytest.raises(CfragError) as refused:
        await Direct(cloudflare, token="x" * 40).create(KIND, wanted("never"))
    assert "API token" in str(refused.value)
    assert cloudflare.account in str(refused.value)
    assert "Traceback" not in str(refused.value)


async def test_a_service_that_does_not_answer_is_named(
    cloudflare: LocalCloudflare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.provider.account.MAX_RETRIES", 0)
    direct = Direct(cloudflare)
    direct.plugin.account.base_url = "http://127.0.0.1:1/client/v4"
    with pytest.raises(CfragError, match=r"no answer from http://127\.0\.0\.1:1"):
        await direct.create(KIND, wanted("never"))
