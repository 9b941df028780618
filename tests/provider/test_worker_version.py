"""Versions: what they hold, what a preview shows of them, and what a state keeps of them."""

from pathlib import Path

import pytest

from infra.bundle import store
from infra.bundle.manifest import Bundle, assemble, module
from infra.errors import CfragError
from infra.provider.values import Values
from tests.provider.support import Direct, LocalCloudflare

KIND = "WorkerVersion"
SECRET = "a-secret-of-at-least-32-characters"


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    """A small bundle in a store of its own."""
    monkeypatch.setenv("CFRAG_HOME", str(tmp_path))
    made = bundle_of("print('hello')\n")
    store.save(made, tmp_path)
    return made


def bundle_of(text: str) -> Bundle:
    own = [module("entry.py", text.encode()), module("rag/core.py", b"X = 1\n")]
    vendored = [module("python_modules/workers/__init__.py", b"")]
    return assemble(own, vendored, {"workers-runtime-sdk": "1.6.15"}, 512)


def worker(cloudflare: LocalCloudflare, name: str) -> str:
    return cloudflare.client.workers.beta.workers.create(account_id=cloudflare.account, name=name).id


def wanted(worker_id: str, name: str, digest: str, **bindings: Values) -> Values:
    return {"workerId": worker_id, "worker": name, "bundle": digest, "bindings": bindings}


@pytest.mark.parametrize("upload", ["beta", "multipart"])
async def test_both_endpoints_take_the_same_version(
    direct: Direct, cloudflare: LocalCloudflare, bundle: Bundle, upload: str
) -> None:
    name = f"version-{upload}"
    worker_id = worker(cloudflare, name)
    text = {"type": "plain_text", "text": "768"}
    inputs = await direct.checked(KIND, wanted(worker_id, name, bundle.digest, EMBED_DIMS=text))
    made, state = await direct.create(KIND, inputs | {"upload": upload})
    found = cloudflare.client.workers.beta.workers.versions.get(
        state["versionId"], account_id=cloudflare.account, worker_id=worker_id, include="modules"
    )
    assert made == f"{worker_id}/{state['versionId']}"
    assert {each.name: each.content_type for each in found.modules or ()} == {
        each.name: each.content_type for each in bundle.modules
    }
    assert (found.main_module, found.compatibility_date) == ("entry.py", bundle.compatibility_date)
    assert [(each.name, each.type) for each in found.bindings or ()] == [("EMBED_DIMS", "plain_text")]
    assert await direct.read(KIND, made, state) == state


async def test_a_code_change_shows_the_modules_that_changed(
    direct: Direct, bundle: Bundle, tmp_path: Path
) -> None:
    old = await direct.checked(KIND, wanted("w", "w", bundle.digest))
    changed = bundle_of("print('bye')\n")
    store.save(changed, tmp_path)
    diff = await direct.diff(KIND, old, await direct.checked(KIND, wanted("w", "w", changed.digest)))
    assert sorted(diff.detailed_diff) == ["bundle", 'manifest["entry.py"]']
    assert set(diff.replaces) == {"bundle", "manifest"}
    assert not diff.delete_before_replace


async def test_the_order_of_bindings_is_no_change(direct: Direct, bundle: Bundle) -> None:
    one, other = {"type": "ai"}, {"type": "plain_text", "text": "x"}
    old = await direct.checked(KIND, wanted("w", "w", bundle.digest, AI=one, B=other))
    new = await direct.checked(KIND, wanted("w", "w", bundle.digest, B=other, AI=one))
    assert not (await direct.diff(KIND, old, new)).changes


async def test_a_service_binding_always_names_its_environment(direct: Direct, bundle: Bundle) -> None:
    service = {"type": "service", "service": "other"}
    checked = await direct.checked(KIND, wanted("w", "w", bundle.digest, OTHER=service))
    assert checked["bindings"]["OTHER"] == service | {"environment": "production"}


async def test_a_secret_without_a_text_is_refused(direct: Direct, bundle: Bundle) -> None:
    reasons = await direct.check(
        KIND, wanted("w", "w", bundle.digest, INTERNAL_API_SECRET={"type": "secret_text", "text": ""})
    )
    assert "inherit" in reasons["bindings.INTERNAL_API_SECRET"]


async def test_an_inherited_secret_keeps_its_value(
    direct: Direct, cloudflare: LocalCloudflare, bundle: Bundle
) -> None:
    worker_id = worker(cloudflare, "inherits")
    first = wanted(worker_id, "inherits", bundle.digest, OWN={"type": "secret_text", "text": SECRET})
    _, one = await direct.create(KIND, await direct.checked(KIND, first))
    second = wanted(worker_id, "inherits", bundle.digest, OWN={"type": "inherit"})
    _, two = await direct.create(KIND, await direct.checked(KIND, second))
    assert two["versionId"] != one["versionId"]
    found = cloudflare.client.workers.beta.workers.versions.get(
        two["versionId"], account_id=cloudflare.account, worker_id=worker_id
    )
    assert [(each.name, each.type) for each in found.bindings or ()] == [("OWN", "secret_text")]


async def test_a_bundle_that_is_not_in_the_store_is_named(direct: Direct, bundle: Bundle) -> None:
    with pytest.raises(CfragError, match="pulumi up"):
        await direct.checked(KIND, wanted("w", "w", "0" * 64))


async def test_a_version_of_a_deleted_worker_is_missing(direct: Direct, bundle: Bundle) -> None:
    state = wanted("0" * 32, "w", bundle.digest)
    assert await direct.read(KIND, f"{'0' * 32}/00000000-0000-0000-0000-000000000000", state) is None


async def test_deleting_a_version_leaves_it_for_a_rollback(
    direct: Direct, cloudflare: LocalCloudflare, bundle: Bundle
) -> None:
    worker_id = worker(cloudflare, "rollback")
    made, state = await direct.create(
        KIND, await direct.checked(KIND, wanted(worker_id, "rollback", bundle.digest))
    )
    await direct.delete(KIND, made, state)
    assert await direct.read(KIND, made, state) is not None


async def test_a_change_of_a_worker_that_was_rolled_back_is_announced(
    direct: Direct, cloudflare: LocalCloudflare, bundle: Bundle, tmp_path: Path
) -> None:
    worker_id = worker(cloudflare, "taken-back")
    newer, newest = bundle_of("print('newer')\n"), bundle_of("print('newest')\n")
    versions = []
    for each in (bundle, newer):
        store.save(each, tmp_path)
        old = await direct.checked(KIND, wanted(worker_id, "taken-back", each.digest))
        versions.append(str((await direct.create(KIND, old))[1]["versionId"]))

    async def announced(by: Bundle) -> list[str]:
        store.save(by, tmp_path)
        direct.messages.lines.clear()
        assert await direct.check(KIND, wanted(worker_id, "taken-back", by.digest), old) == {}
        return direct.messages.lines

    def deploy(version: str) -> None:
        cloudflare.client.workers.scripts.deployments.create(
            "taken-back",
            account_id=cloudflare.account,
            strategy="percentage",
            versions=[{"percentage": 100, "version_id": version}],
        )

    assert await announced(newest) == []  # nothing was deployed at all
    for version in versions:
        deploy(version)
    assert await announced(newest) == []
    deploy(versions[0])
    (words,) = await announced(newest)
    assert words.startswith("taken-back was rolled back at ")
    assert f"from version {versions[1][:8]} to {versions[0][:8]}" in words
    assert await announced(newer) == []  # nothing changes, so nothing is undone
