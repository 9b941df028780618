"""The sweep: whatever stops it, every document ends as it should be."""

import asyncio
from typing import Any

import pytest

from tests.worker_core.conftest import CONFIG, bind
from tests.worker_core.platform_bindings import Batch, Message, Platform
from tests.worker_core.test_model_state import BASE, GEMMA, TEXTS, Deploy, Deployment, deploy

__all__ = ["deploy"]

METADATA: dict[str, Any] = dict(CONFIG["metadata"])


class Killed(BaseException):
    """The process is gone: nothing after this point runs."""


@pytest.fixture
async def changed(deploy: Deploy, platform: Platform, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """A version with another model, just deployed over 30 documents."""
    await deploy(BASE).ingest()
    new = deploy(GEMMA)
    monkeypatch.setattr(new.version.retries, "DELAYS", (0, 0))
    platform.set_meta(desired_fingerprint=new.config.fingerprint(), desired_generation="3")
    return new


async def _contents(of: Deployment) -> dict[str, str]:
    get = of.version.core.get_doc
    return {name: (await get(of.b, name)).body for name in [row["id"] for row in of.platform.rows()]}


@pytest.mark.parametrize("point", ["ai", "vectorize.getByIds", "vectorize.upsert", "d1", "queue"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_after_a_kill_at_any_point_any_request_goes_on(
    changed: Deployment, platform: Platform, point: str, when: str
) -> None:
    await changed.search()
    getattr(platform.faults, when)[point] = [Killed()]
    with pytest.raises(Killed):
        await changed.drain()
    platform.queued.clear()
    platform.pass_minutes(3)
    changed.look_again()
    assert await changed.search(), "searches are answered all the time"
    platform.pass_minutes(6)
    changed.look_again()
    await changed.search()
    await changed.drain()
    assert changed.models() == {changed.config.fingerprint()}
    assert await _contents(changed) == TEXTS
    changed.look_again()
    assert (await changed.stats()).state == "ok"


async def test_failing_calls_of_ai_delay_but_lose_nothing(changed: Deployment, platform: Platform) -> None:
    platform.faults.before["ai"] = [RuntimeError("3040: Capacity temporarily exceeded")] * 7
    with pytest.raises(changed.version.errors.Problem):
        await changed.search()
    await changed.drain()
    assert changed.models() == {changed.config.fingerprint()}
    assert await _contents(changed) == TEXTS


async def test_the_activations_message_starts_without_traffic(
    changed: Deployment, platform: Platform
) -> None:
    platform.queued.append({"body": {"kind": "sweep", "cursor": ""}})
    await changed.drain()
    assert changed.models() == {changed.config.fingerprint()}


async def test_a_running_sweep_is_not_started_twice(changed: Deployment, platform: Platform) -> None:
    await changed.search()
    assert len(platform.queued) == 1
    for _ in range(3):
        changed.look_again()
        await changed.search()
    assert len(platform.queued) == 1
    # A message of a sweep that has been started over is dropped.
    stale = Message({"kind": "sweep", "cursor": "1:"})
    await changed.version.consumer.consume(changed.b, Batch([stale]))
    assert (stale.acked, len(platform.queued)) == (True, 1)


async def test_a_sweep_of_many_pages_sends_itself_on(changed: Deployment, platform: Platform) -> None:
    more = {f"m{at:03}": f"More of passage {at}." for at in range(230)}
    old = {row["embed_model"] for row in platform.rows()}.pop()
    await changed.ingest(more)
    platform.sql.execute("UPDATE documents SET embed_model = ?", [old])
    await changed.drain()
    assert changed.models() == {changed.config.fingerprint()}
    assert '"done":true' in platform.meta()["sweep"]
    assert await _contents(changed) == TEXTS | more


async def test_a_document_that_the_model_never_takes_is_given_up_once(
    changed: Deployment, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = platform.ai.run

    def run(model: str, inputs: Any) -> Any:
        texts = inputs["text"]
        if any("Passage 7 " in text for text in texts) and len(texts) > 0 and "query" not in texts[0]:
            from local.ai.inputs import context_exceeded

            raise context_exceeded(9_999, 2_048)
        return real(model, inputs)

    monkeypatch.setattr(platform.ai, "run", run)
    await changed.search()
    await changed.drain()
    (dead,) = platform.dead
    assert dead["body"]["original"] == {"kind": "reindex", "ids": ["d7"]}
    assert "context window" in dead["body"]["reason"]
    fingerprint = changed.config.fingerprint()
    assert {row["id"] for row in platform.rows() if row["embed_model"] != fingerprint} == {"d7"}
    platform.pass_minutes(5)
    changed.look_again()
    assert (await changed.stats()).state == "ok"
    assert await changed.drain() == 0, "no sweep tries it again"
    assert await _contents(changed) == TEXTS


async def test_new_content_is_never_overwritten_by_the_sweep(changed: Deployment, platform: Platform) -> None:
    """The sweep has read the old content and is about to write it when the new one comes."""
    await changed.search()
    stopped, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        stopped.set()
        await go_on.wait()

    platform.faults.before["vectorize.upsert"] = [hold]
    sweeping = asyncio.create_task(changed.drain())
    await stopped.wait()
    writing = asyncio.create_task(changed.ingest({"d1": "New content."}))
    deleting = asyncio.create_task(changed.version.core.delete_docs(changed.b, ["d2"]))
    await asyncio.sleep(0.3)
    go_on.set()
    await asyncio.gather(sweeping, writing, deleting)
    assert platform.vectorize.get_by_ids("g3", ["d1"])[0]["metadata"]["rawBody"] == "New content."
    assert platform.vectorize.get_by_ids("g3", ["d2"]) == []
    platform.pass_minutes(6)
    await changed.drain()
    expected = {name: text for name, text in TEXTS.items() if name != "d2"} | {"d1": "New content."}
    assert await _contents(changed) == expected


async def test_content_that_can_not_be_seen_yet_waits(changed: Deployment, platform: Platform) -> None:
    """The index still shows what was there before the last write."""
    platform.vectorize.delay = 3600
    await changed.ingest({"d1": "New content."})
    row = platform.row("d1") or {}
    platform.sql.execute("UPDATE documents SET embed_model = 'other#1' WHERE id = 'd1'")
    message = Message({"kind": "reindex", "ids": ["d1"], "_reindexFromQueue": True})
    before = platform.calls["vectorize.upsert"]
    await changed.version.consumer.consume(changed.b, Batch([message]))
    assert (message.retried, platform.calls["vectorize.upsert"]) == (10, before)
    assert (platform.row("d1") or {})["content_hash"] == row["content_hash"]


async def test_an_added_field_is_filterable_when_every_vector_is_in_its_index(
    deploy: Deploy, platform: Platform
) -> None:
    old = deploy(BASE)
    make = old.version.schemas.Document
    documents = [make(id=f"n{at}", body=f"Passage {at}.", metadata={"year": at}) for at in range(25)]
    await old.version.core.ingest_docs(old.b, documents, source="test")
    embedded = platform.calls["ai"]

    new = deploy(BASE, metadata={**METADATA, "level": {"type": "number"}})
    platform.vectorize.create_metadata_index("g3", "level", "number")
    search = new.version.schemas.SearchRequest(query="passage", filter={"level": 1})
    with pytest.raises(new.version.errors.Problem) as refused:
        await new.version.core.search_docs(new.b, search)
    assert (refused.value.status, refused.value.field) == (409, "filter.level")
    assert refused.value.extra == {"progress": {"done": 0, "total": 25}}
    assert len(await new.search(filter={"year": {"$gte": 20}})) == 5, "other fields go on"

    await new.drain()
    assert platform.calls["ai"] == embedded + 1, "one query, and no document embedded again"
    new.look_again()
    assert (await new.version.core.search_docs(new.b, search)).hits == []
    added = new.version.schemas.Document(id="with", body="Passage.", metadata={"level": 1})
    await new.version.core.ingest_docs(new.b, [added], source="test")
    assert [hit.id for hit in (await new.version.core.search_docs(new.b, search)).hits] == ["with"]


async def test_vectors_from_before_an_index_are_in_it_after_the_sweep(
    deploy: Deploy, platform: Platform
) -> None:
    fields = {**METADATA, "level": {"type": "number", "filterable": False}}
    old = deploy(BASE, metadata=fields)
    document = old.version.schemas.Document(id="a", body="Passage.", metadata={"level": 7})
    await old.version.core.ingest_docs(old.b, [document], source="test")
    new = deploy(BASE, metadata={**METADATA, "level": {"type": "number"}})
    platform.vectorize.create_metadata_index("g3", "level", "number")
    await new.search()
    await new.drain()
    new.look_again()
    assert [hit.id for hit in await new.search(filter={"level": 7})] == ["a"]


async def test_a_removed_field_rewrites_nothing(deploy: Deploy, platform: Platform) -> None:
    await deploy(BASE).ingest()
    written = platform.calls["vectorize.upsert"]
    fewer = {name: field for name, field in METADATA.items() if name != "draft"}
    new = deploy(BASE, metadata=fewer)
    await new.search(filter={"year": {"$gte": 1}})
    assert await new.drain() == 0
    assert platform.calls["vectorize.upsert"] == written
    assert (await new.stats()).progress is None


async def test_abandoned_writes_and_deletes_are_finished(deploy: Deploy, platform: Platform) -> None:
    first = deploy(BASE)
    await first.ingest()
    for fault, work in (
        ("vectorize.upsert", first.ingest({"d1": "Never committed."})),
        ("vectorize.deleteByIds", first.version.core.delete_docs(first.b, ["d2"])),
    ):
        platform.faults.after[fault] = [Killed()]
        with pytest.raises(Killed):
            await work
    platform.pass_minutes(6)
    first.look_again()
    await first.search()
    await first.drain()
    assert platform.row("d2") is None
    row = platform.row("d1") or {}
    stored = platform.vectorize.get_by_ids("g3", ["d1"])[0]["metadata"]
    assert (row["content_hash"], row["pending_at"]) == (stored["contentHash"], None)
    assert (await first.stats()).documents.total == 29


async def test_without_a_queue_requests_do_the_work(deploy: Deploy, platform: Platform) -> None:
    await deploy(BASE).ingest()
    new = deploy(GEMMA)
    new.b = bind(new.version, platform, new.config, queue=None, dlq=None)
    for _ in range(3):
        new.look_again()
        await new.search()
        platform.pass_minutes(3)
    assert new.models() == {new.config.fingerprint()}
    new.look_again()
    assert (await new.stats()).state == "ok"
    assert await _contents(new) == TEXTS
