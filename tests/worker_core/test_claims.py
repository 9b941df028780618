"""Two stores without a transaction: whatever is killed or comes at the same time, they agree or will."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.worker_core.platform_bindings import Batch, Message, Platform, drain


class Killed(BaseException):
    """The process is gone: nothing after this point runs."""


@pytest.fixture(autouse=True)
def no_waiting(worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.retries, "DELAYS", (0, 0))


@pytest.fixture
def ingest(worker: Any, b: Any) -> Callable[..., Any]:
    async def ingest(*documents: Any, bindings: Any = b) -> list[Any]:
        results: list[Any] = await worker.core.ingest_docs(bindings, list(documents), source="test")
        return results

    return ingest


async def _verify(worker: Any, b: Any, *ids: str) -> Message:
    message = Message({"kind": "verify", "ids": list(ids), "_reindexFromQueue": True})
    await worker.consumer.consume(b, Batch([message]))
    return message


def _in_index(platform: Platform, doc_id: str = "a") -> dict[str, Any] | None:
    found = platform.vectorize.get_by_ids("g1", [doc_id])
    return found[0]["metadata"] if found else None


@pytest.mark.parametrize("point", ["vectorize.upsert", "ai.run", "d1.all"])
async def test_after_a_kill_the_next_ingest_is_not_skipped(
    worker: Any, b: Any, doc: Any, platform: Platform, ingest: Any, point: str
) -> None:
    await worker.model_state.current(b)
    platform.faults.after[point] = [Killed()]
    with pytest.raises(Killed):
        await ingest(doc())
    (result,) = await ingest(doc())
    assert result.status == "indexed"
    (result,) = await ingest(doc())
    assert result.status == "skipped"


async def test_after_a_kill_the_old_content_is_written_if_it_is_wanted_again(
    doc: Any, platform: Platform, ingest: Any
) -> None:
    await ingest(doc(body="Old."))
    platform.faults.after["vectorize.upsert"] = [Killed()]
    with pytest.raises(Killed):
        await ingest(doc(body="New."))
    (result,) = await ingest(doc(body="Old."))
    assert result.status == "indexed"
    assert (_in_index(platform) or {})["rawBody"] == "Old."


async def test_a_killed_write_that_reached_the_index_is_found_out(
    worker: Any, b: Any, doc: Any, platform: Platform, ingest: Any
) -> None:
    await ingest(doc(body="Old."))
    platform.faults.after["vectorize.upsert"] = [Killed()]
    with pytest.raises(Killed):
        await ingest(doc(body="New.", active=False))
    assert (await _verify(worker, b, "a")).retried, "a claim this young may still be alive"

    platform.pass_minutes(6)
    message = await _verify(worker, b, "a")
    row, metadata = platform.row("a") or {}, _in_index(platform) or {}
    assert message.acked
    assert (row["content_hash"], row["active"]) == (metadata["contentHash"], 0)
    (result,) = await ingest(doc(body="New.", active=False))
    assert result.status == "skipped"
    assert platform.meta()["repairs"] == "1"


async def test_a_killed_write_that_did_not_reach_the_index_changes_nothing(
    worker: Any, b: Any, doc: Any, platform: Platform, ingest: Any
) -> None:
    await ingest(doc(body="Old."))
    platform.faults.before["vectorize.upsert"] = [Killed()]
    with pytest.raises(Killed):
        await ingest(doc(body="New."))
    platform.pass_minutes(6)
    assert (await _verify(worker, b, "a")).retried, "it may not be visible yet"
    platform.pass_minutes(6)
    assert (await _verify(worker, b, "a")).acked
    (result,) = await ingest(doc(body="Old."))
    assert result.status == "skipped"


async def test_a_first_write_that_never_came_so_far_leaves_no_document(
    worker: Any, b: Any, doc: Any, platform: Platform, ingest: Any
) -> None:
    await worker.model_state.current(b)
    platform.faults.after["ai"] = [Killed()]
    with pytest.raises(Killed):
        await ingest(doc())
    assert (await worker.core.get_doc(b, "a")).state == "indexing"
    platform.pass_minutes(12)
    assert (await _verify(worker, b, "a")).acked
    assert platform.row("a") is None


async def test_a_vector_that_never_appears_clears_the_hash(
    worker: Any, b: Any, doc: Any, platform: Platform, ingest: Any
) -> None:
    await ingest(doc())
    platform.vectorize.delete_by_ids("g1", ["a"])
    assert (await _verify(worker, b, "a")).retried
    assert (platform.row("a") or {})["content_hash"] is not None, "it may not be visible yet"
    platform.pass_minutes(12)
    assert (await _verify(worker, b, "a")).acked
    assert (platform.row("a") or {})["content_hash"] is None
    assert (await worker.core.get_doc(b, "a")).state == "indexing"
    (result,) = await ingest(doc())
    assert result.status == "indexed"


async def test_two_writers_end_with_both_stores_agreeing(
    worker: Any, b: Any, doc: Any, platform: Platform, ingest: Any
) -> None:
    """The slower writer's vector comes last, but its commit too late."""
    stopped, overtaken = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        stopped.set()
        await overtaken.wait()

    await worker.model_state.current(b)
    platform.faults.before["vectorize.upsert"] = [hold]
    slow = asyncio.create_task(ingest(doc(body="Slow.")))
    await stopped.wait()
    await ingest(doc(body="Fast."))
    overtaken.set()
    ((result,),) = await asyncio.gather(slow)
    assert result.status == "indexed"
    assert (_in_index(platform) or {})["rawBody"] == "Slow."

    (again,) = await ingest(doc(body="Fast."))
    assert again.status == "indexed", "what the index holds is not known for sure"
    platform.pass_minutes(6)
    await drain(worker.consumer.consume, b, platform)
    row, metadata = platform.row("a") or {}, _in_index(platform) or {}
    assert row["content_hash"] == metadata["contentHash"]
    assert row["pending_at"] is None


async def test_a_dead_writer_between_two_others_is_not_forgotten(
    worker: Any, b: Any, doc: Any, platform: Platform, ingest: Any
) -> None:
    """It wrote its vector after the second writer's commit, and died before it could say so."""
    await worker.model_state.current(b)
    stopped, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        stopped.set()
        await go_on.wait()

    platform.faults.before["vectorize.upsert"] = [hold]
    dead = asyncio.create_task(ingest(doc(body="Dead.")))
    await stopped.wait()
    await ingest(doc(body="Alive."))
    platform.faults.after["vectorize.upsert"] = [asyncio.CancelledError()]
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await dead
    assert (_in_index(platform) or {})["rawBody"] == "Dead."

    (result,) = await ingest(doc(body="Alive."))
    assert result.status == "indexed"
    assert (_in_index(platform) or {})["rawBody"] == "Alive."


async def test_a_failed_embedding_leaves_no_trace(doc: Any, platform: Platform, ingest: Any) -> None:
    platform.faults.before["ai"] = [RuntimeError("3040: Capacity temporarily exceeded")] * 3
    (result,) = await ingest(doc())
    assert (result.status, result.transient) == (503, True)
    assert platform.row("a") is None

    await ingest(doc(body="Old."))
    before = platform.row("a") or {}
    platform.faults.before["ai"] = [RuntimeError("3040: Capacity temporarily exceeded")] * 3
    await ingest(doc(body="New."))
    after = platform.row("a") or {}
    assert after == {**before, "seq": after["seq"]}


async def test_a_failed_write_is_reported_and_written_again(
    doc: Any, platform: Platform, ingest: Any
) -> None:
    platform.faults.before["vectorize"] = [RuntimeError("VECTOR_UPSERT_ERROR (code = 40041): Too Many")] * 3
    (result,) = await ingest(doc())
    assert (result.status, result.title) == (503, "Not available at the moment")
    (result,) = await ingest(doc())
    assert result.status == "indexed"


async def test_passing_failures_of_every_service_are_not_noticed(
    worker: Any, b: Any, doc: Any, platform: Platform, ingest: Any
) -> None:
    await worker.model_state.current(b)
    for service in ("ai", "vectorize", "d1"):
        platform.faults.before[service] = [RuntimeError("Network connection lost.")] * 2
    (result,) = await ingest(doc())
    assert result.status == "indexed"


async def test_a_delete_while_a_write_is_under_way_leaves_no_vector(
    worker: Any, b: Any, doc: Any, platform: Platform, ingest: Any
) -> None:
    stopped, go_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        stopped.set()
        await go_on.wait()

    platform.faults.before["vectorize.upsert"] = [hold]
    writer = asyncio.create_task(ingest(doc()))
    await stopped.wait()
    (deleted,) = await worker.core.delete_docs(b, ["a"])
    assert deleted.status == "deleted"
    go_on.set()
    await writer
    assert _in_index(platform) is not None, "the write came after the delete"
    with pytest.raises(worker.errors.Problem, match="no document"):
        await worker.core.get_doc(b, "a")

    platform.pass_minutes(6)
    await drain(worker.consumer.consume, b, platform)
    assert (_in_index(platform), platform.row("a")) == (None, None)


async def test_a_deleted_document_can_be_ingested_again(
    worker: Any, b: Any, doc: Any, platform: Platform, ingest: Any
) -> None:
    await ingest(doc())
    await worker.core.delete_docs(b, ["a"])
    assert platform.row("a") is None
    (result,) = await ingest(doc())
    assert result.status == "indexed"
    assert (await worker.core.get_doc(b, "a")).state == "indexed"


async def test_a_delete_that_did_not_reach_the_index_is_finished_later(
    worker: Any, b: Any, doc: Any, platform: Platform, ingest: Any
) -> None:
    await ingest(doc())
    platform.faults.before["vectorize"] = [Killed()]
    with pytest.raises(Killed):
        await worker.core.delete_docs(b, ["a"])
    with pytest.raises(worker.errors.Problem):
        await worker.core.get_doc(b, "a")
    assert (await worker.core.list_docs(b, None, 10, False)).documents == []
    await _verify(worker, b, "a")
    assert (_in_index(platform), platform.row("a")) == (None, None)


async def test_deletes_of_unknown_ids_reach_the_index_too(worker: Any, b: Any, platform: Platform) -> None:
    values = [1.0] + [0.0] * 383
    platform.vectorize.write("g1", [{"id": "stray", "values": values}], "upsert")
    results = await worker.core.delete_docs(b, ["stray", "never"])
    assert [result.status for result in results] == ["missing", "missing"]
    assert platform.vectorize.get_by_ids("g1", ["stray"]) == []
    assert platform.rows() == []
