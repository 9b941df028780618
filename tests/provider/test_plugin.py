"""The provider as a whole: its config, its secrets, previews, and the end by Ctrl-C."""

import asyncio

import pytest
from pulumi.provider.experimental import provider as sdk
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.runtime import rpc

from infra.errors import CfragError
from infra.provider.serving import PartialFailure
from infra.provider.values import UNKNOWN, Values, to_plain_map, to_properties
from tests.provider.support import Direct, LocalCloudflare

TOKEN = "t" * 40
SPACE: Values = {
    "owner": "cfrag:shop/dev",
    "database": "shop-db",
    "index": "shop-768-g1",
    "model": "@cf/baai/bge-base-en-v1.5",
    "dims": 768,
    "metric": "cosine",
    "generation": 1,
}


async def config(direct: Direct, new: Values, old: Values | None = None) -> sdk.CheckResponse:
    request = sdk.CheckRequest("urn", to_properties(old or {}), to_properties(new), b"")
    return await direct.plugin.check_config(request)


async def test_a_token_given_in_clear_becomes_a_secret(direct: Direct) -> None:
    inputs = (await config(direct, {"apiToken": TOKEN, "accountId": "a"})).inputs or {}
    assert {key: value.is_secret for key, value in inputs.items()} == {"apiToken": True, "accountId": False}


async def test_a_stack_does_not_move_to_another_account(direct: Direct) -> None:
    response = await config(direct, {"accountId": "b"}, {"accountId": "a"})
    assert [failure.property for failure in response.failures or ()] == ["accountId"]
    assert not (await config(direct, {"accountId": "a"}, {"accountId": "a"})).failures
    assert not (await config(direct, {"accountId": UNKNOWN}, {"accountId": "a"})).failures


async def test_what_the_config_leaves_out_comes_from_the_environment(
    direct: Direct, cloudflare: LocalCloudflare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDFLARE_API_TOKEN", cloudflare.token)
    monkeypatch.setenv("CLOUDFLARE_ACCOUNT_ID", cloudflare.account)
    monkeypatch.setenv("CLOUDFLARE_BASE_URL", cloudflare.api.base_url)
    await direct.plugin.configure(sdk.ConfigureRequest({}, {}, True, True))
    assert await direct.read("VectorizeIndex", "no-such-index") is None


async def test_without_a_token_or_an_account_the_setting_is_named(
    direct: Direct, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CLOUDFLARE_API_TOKEN", "CLOUDFLARE_ACCOUNT_ID"):
        monkeypatch.delenv(name, raising=False)
    await direct.plugin.configure(sdk.ConfigureRequest({}, {}, True, True))
    with pytest.raises(CfragError, match="cloudflare:apiToken"):
        await direct.read("VectorizeIndex", "any")
    arguments = to_properties({"apiToken": TOKEN})
    await direct.plugin.configure(sdk.ConfigureRequest({}, arguments, True, True))
    with pytest.raises(CfragError, match="cf-rag:accountId"):
        await direct.read("VectorizeIndex", "any")


async def test_unknown_inputs_are_passed_on_unchecked(direct: Direct) -> None:
    inputs = to_properties(SPACE | {"dims": UNKNOWN})
    response = await direct.plugin.check(sdk.CheckRequest(direct.urn("EmbeddingSpace"), {}, inputs, b""))
    assert not response.failures
    assert response.inputs == inputs


async def test_a_preview_gives_what_is_known_and_writes_nothing(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    index = {"name": "preview", "dims": 8, "metric": "cosine", "generation": 2, "owner": "cfrag:shop/dev"}
    request = sdk.CreateRequest(direct.urn("VectorizeIndex"), to_properties(index), 0, True)
    response = await direct.plugin.create(request)
    assert response.resource_id == ""
    assert response.properties["description"].value == "cfrag:shop/dev/g2"
    assert await direct.read("VectorizeIndex", "preview") is None

    version = to_properties({"workerId": "w", "worker": "w", "bundle": "b"})
    response = await direct.plugin.create(sdk.CreateRequest(direct.urn("WorkerVersion"), version, 0, True))
    assert response.properties["versionId"].value == rpc.UNKNOWN


async def test_a_secret_stays_one_through_check_and_read(direct: Direct) -> None:
    text = PropertyValue("hidden").with_secret(True)
    secret = PropertyValue({"type": PropertyValue("secret_text"), "text": text})
    inputs = to_properties({"workerId": "w", "worker": "w", "bundle": UNKNOWN})
    inputs["bindings"] = PropertyValue({"INTERNAL_API_SECRET": secret})
    checked = await direct.plugin.check(sdk.CheckRequest(direct.urn("WorkerVersion"), {}, inputs, b""))
    assert (checked.inputs or {})["bindings"] == inputs["bindings"]

    state = to_properties(SPACE | {"spaces": ["g1/768/cosine"]})
    state["index"] = state["index"].with_secret(True)
    read = await direct.plugin.read(sdk.ReadRequest(direct.urn("EmbeddingSpace"), "id", state, state))
    assert read.properties["index"].is_secret
    assert to_plain_map(read.properties) == to_plain_map(state)


async def test_an_unknown_resource_is_named(direct: Direct) -> None:
    with pytest.raises(CfragError, match="has no resource cfrag:index:Nonsense"):
        await direct.read("Nonsense", "id")


async def test_ctrl_c_ends_a_wait_and_keeps_what_exists(direct: Direct, cloudflare: LocalCloudflare) -> None:
    index = cloudflare.index("interrupted")
    cloudflare.control("PUT", "/__local/settings", {"vectorizeDelaySeconds": 60})
    try:
        inputs = {"index": index, "propertyName": "tags", "indexType": "string", "waitSeconds": 50}
        creating = asyncio.create_task(direct.create("VectorizeMetadataIndex", inputs))
        await asyncio.wait_for(direct.messages.said.wait(), 10)
        await direct.plugin.cancel()
        with pytest.raises(PartialFailure) as kept:
            await asyncio.wait_for(creating, 10)
        assert kept.value.resource_id == "interrupted/tags"
        assert "interrupted" in str(kept.value)
        assert "pulumi up" in str(kept.value)
    finally:
        cloudflare.control("PUT", "/__local/settings", {"vectorizeDelaySeconds": 0})
