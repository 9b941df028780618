"""The drift machine: fresh, ok, reindexing, dims_mismatch, and who may move from one to the other."""

from collections.abc import Callable
from typing import Any

import pytest

from infra.config import RagConfig
from tests.worker_core.conftest import bind, config, create_index
from tests.worker_core.loading import Version
from tests.worker_core.platform_bindings import Platform, drain

BASE, GEMMA = "@cf/baai/bge-base-en-v1.5", "@cf/google/embeddinggemma-300m"
TEXTS = {f"d{at}": f"Passage {at} about loops." for at in range(30)}


class Deployment:
    """A version of the Worker, running in one isolate against the account."""

    def __init__(self, version: Version, platform: Platform, wanted: RagConfig, **changes: Any) -> None:
        self.version, self.platform, self.config = version, platform, wanted
        self.b = bind(version, platform, wanted, **changes)

    async def ingest(self, texts: dict[str, str] | None = None) -> set[str]:
        make = self.version.schemas.Document
        documents = [make(id=name, body=text) for name, text in (texts or TEXTS).items()]
        return {
            result.status for result in await self.version.core.ingest_docs(self.b, documents, source="test")
        }

    async def search(self, query: str = "loops", **given: Any) -> list[Any]:
        request = self.version.schemas.SearchRequest(query=query, **given)
        hits: list[Any] = (await self.version.core.search_docs(self.b, request)).hits
        return hits

    async def stats(self) -> Any:
        return await self.version.core.get_stats(self.b)

    async def drain(self) -> int:
        return await drain(self.version.consumer.consume, self.b, self.platform)

    def look_again(self) -> None:
        self.version.model_state.forget()

    def models(self) -> set[str]:
        return {row["embed_model"] for row in self.platform.rows()}


Deploy = Callable[..., Deployment]


@pytest.fixture
def deploy(render_version: Callable[[RagConfig], Version], platform: Platform) -> Deploy:
    def deploy(model: str = BASE, bindings: dict[str, Any] | None = None, **changes: Any) -> Deployment:
        wanted = config(embedding={"model": model, "generation": 3}, **changes)
        known = [index["name"] for index in platform.vectorize.list_indexes()]
        if "g3" not in known:
            create_index(platform.vectorize, "g3", wanted)
        return Deployment(render_version(wanted), platform, wanted, **(bindings or {}))

    return deploy


async def test_the_first_boot_writes_down_what_the_vectors_are(deploy: Deploy, platform: Platform) -> None:
    first = deploy()
    assert (await first.stats()).state == "fresh"
    assert f'"model":"{BASE}"' in platform.meta()["space"]
    first.look_again()
    assert (await first.stats()).state == "ok"


async def test_an_isolate_looks_once_a_minute(deploy: Deploy, platform: Platform, monkeypatch: Any) -> None:
    first = deploy()
    await first.ingest()
    before = platform.calls["d1"]
    await first.search()
    assert platform.calls["d1"] == before
    monkeypatch.setattr(first.version.model_state, "CACHE_SECONDS", 0.0)
    await first.search()
    assert platform.calls["d1"] == before + 1


@pytest.mark.parametrize(
    "change", [{"dims": 1024}, {"model": "@cf/baai/bge-m3", "dims": 1024}, {"generation": 9}]
)
async def test_other_variables_than_the_data_close_every_data_route(
    deploy: Deploy, platform: Platform, change: dict[str, Any]
) -> None:
    first = deploy()
    await first.ingest()
    vars_of = first.version.bindings.Vars
    values = {"model": BASE, "dims": 768, "generation": 3} | change
    second = deploy(bindings={"vars": vars_of(**values)})
    second.b = bind(second.version, platform, second.config, vars=second.version.bindings.Vars(**values))
    before = dict(platform.calls)
    core, b = second.version.core, second.b
    for call in (
        second.ingest,
        second.search,
        lambda: core.get_doc(b, "d1"),
        lambda: core.list_docs(b, None, 5, False),
        lambda: core.delete_docs(b, ["d1"]),
    ):
        with pytest.raises(second.version.errors.Problem) as refused:
            await call()
        assert (refused.value.status, refused.value.type) == (503, "dims-mismatch")
        assert "768 dimensions, generation 3" in refused.value.detail
    assert (platform.calls["ai"], platform.calls["vectorize"]) == (before["ai"], before["vectorize"])
    stats = await second.stats()
    assert (stats.state, stats.documents.total) == ("dims_mismatch", 30)
    first.look_again()
    assert await first.ingest() == {"skipped"}


async def test_another_model_of_equal_dims_embeds_everything_again(
    deploy: Deploy, platform: Platform
) -> None:
    old = deploy(BASE)
    await old.ingest()
    new = deploy(GEMMA)
    stats = await new.stats()
    assert (stats.state, stats.progress.done, stats.progress.total) == ("reindexing", 0, 30)
    await new.search()
    await new.drain()
    assert new.models() == {new.config.fingerprint()}
    new.look_again()
    stats = await new.stats()
    assert (stats.state, stats.progress, stats.documents.by_model) == ("ok", None, {GEMMA: 30})
    for name, text in TEXTS.items():
        assert (await new.version.core.get_doc(new.b, name)).body == text
    assert (await new.search("Passage 7 about loops."))[0].id == "d7"
    assert await new.ingest() == {"skipped"}


async def test_without_auto_reindex_everything_stays_with_the_old_model(
    deploy: Deploy, platform: Platform
) -> None:
    old = deploy(BASE)
    await old.ingest()
    new = deploy(GEMMA)
    new.b = bind(new.version, platform, new.config, vars=new.version.bindings.Vars(GEMMA, 768, 3, False))
    stats = await new.stats()
    assert (stats.state, stats.model) == ("ok", BASE)
    assert "AUTO_REINDEX_ON_MODEL_CHANGE" in stats.advice
    assert await new.ingest() == {"skipped"}
    assert await new.ingest({"more": "Another passage."}) == {"indexed"}
    assert (await new.search("Passage 7 about loops."))[0].id == "d7"
    assert await new.drain() == 0
    assert new.models() == {old.config.fingerprint()}


async def test_two_versions_in_turn_do_not_undo_each_others_work(deploy: Deploy, platform: Platform) -> None:
    old, new = deploy(BASE), deploy(GEMMA)
    await old.ingest()
    platform.set_meta(desired_fingerprint=new.config.fingerprint(), desired_generation="3")
    await new.search()
    await new.drain()
    embedded = platform.calls["ai"]
    for _ in range(3):
        for each in (old, new):
            platform.pass_minutes(3)
            each.look_again()
            assert await each.ingest() == {"skipped"}
            await each.drain()
    assert platform.calls["ai"] == embedded
    assert old.models() == {new.config.fingerprint()}
    assert (await old.search("Passage 7 about loops."))[0].id == "d7", (
        "the old version asks with the new model"
    )


async def test_what_an_old_isolate_still_writes_is_embedded_again(deploy: Deploy, platform: Platform) -> None:
    old, new = deploy(BASE), deploy(GEMMA)
    await old.ingest()
    platform.set_meta(desired_fingerprint=new.config.fingerprint(), desired_generation="3")
    await new.search()
    # Within its minute the old isolate knows nothing of the change.
    assert await old.ingest({"late": "Written late."}) == {"indexed"}
    assert await old.ingest({"d1": "Written anew."}) == {"indexed"}
    await new.drain()
    platform.pass_minutes(3)
    new.look_again()
    await new.search()
    await new.drain()
    assert new.models() == {new.config.fingerprint()}
    assert (await new.version.core.get_doc(new.b, "d1")).body == "Written anew."


async def test_going_back_is_a_change_like_any_other(deploy: Deploy, platform: Platform) -> None:
    old, new = deploy(BASE), deploy(GEMMA)
    for each in (old, new, old):
        platform.set_meta(desired_fingerprint=each.config.fingerprint(), desired_generation="3")
        each.look_again()
        await each.search()
        await each.ingest()
        await each.drain()
        assert each.models() == {each.config.fingerprint()}


async def test_an_unknown_model_is_refused_by_name(deploy: Deploy, platform: Platform) -> None:
    first = deploy()
    first.b = bind(
        first.version, platform, first.config, vars=first.version.bindings.Vars("@cf/none", 768, 3)
    )
    with pytest.raises(first.version.errors.Problem, match="'@cf/none'; this Worker knows"):
        await first.search()
