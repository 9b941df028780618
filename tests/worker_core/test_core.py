"""The service on real engines: documents in, answers out."""

from typing import Any

import pytest


async def test_an_ingested_document_is_found_with_all_that_it_holds(worker: Any, b: Any, doc: Any) -> None:
    whole = doc(
        "loops/01", title="Loops", tags=["b", "a"], metadata={"chapter": "statements", "year": 2024.0}
    )
    (result,) = await worker.core.ingest_docs(b, [whole], source="test")
    assert (result.id, result.status, result.embed_model) == (
        "loops/01",
        "indexed",
        "@cf/baai/bge-small-en-v1.5",
    )

    (hit,) = (await worker.core.search_docs(b, worker.schemas.SearchRequest(query="repeat a block"))).hits
    assert (hit.id, hit.title, hit.body, hit.tags, hit.active) == (
        "loops/01",
        "Loops",
        whole.body,
        ["a", "b"],
        True,
    )
    assert hit.metadata == {"chapter": "statements", "year": 2024}
    found = await worker.core.get_doc(b, "loops/01")
    assert (found.state, found.body, found.content_hash) == ("indexed", whole.body, result.content_hash)


async def test_an_unchanged_document_is_skipped_though_ai_fails(
    worker: Any, b: Any, doc: Any, platform: Any
) -> None:
    await worker.core.ingest_docs(b, [doc(tags=["x", "y"], metadata={"year": 2024})], source="test")
    platform.faults.before["ai"] = [RuntimeError("must not be called")]
    again = doc(tags=["y", "x"], metadata={"year": 2024.0})
    (result,) = await worker.core.ingest_docs(b, [again], source="test")
    assert result.status == "skipped"
    assert platform.faults.before["ai"], "AI was called"


@pytest.mark.parametrize(
    "change", [{"body": "Other."}, {"title": "T"}, {"tags": ["t"]}, {"metadata": {"year": 1}}]
)
async def test_any_change_of_content_is_embedded_again(worker: Any, b: Any, doc: Any, change: Any) -> None:
    await worker.core.ingest_docs(b, [doc()], source="test")
    (result,) = await worker.core.ingest_docs(b, [doc(**change)], source="test")
    assert result.status == "indexed"
    assert (await worker.core.get_doc(b, "a")).content_hash == result.content_hash


async def test_a_forced_document_is_embedded_again(worker: Any, b: Any, doc: Any, platform: Any) -> None:
    await worker.core.ingest_docs(b, [doc()], source="test")
    (result,) = await worker.core.ingest_docs(b, [doc(forceReindex=True)], source="test")
    assert (result.status, platform.calls["ai"]) == ("indexed", 2)
    (result,) = await worker.core.ingest_docs(b, [doc()], source="test")
    assert result.status == "skipped"


async def test_a_change_of_active_alone_needs_no_ai(worker: Any, b: Any, doc: Any, platform: Any) -> None:
    await worker.core.ingest_docs(b, [doc()], source="test")
    (result,) = await worker.core.ingest_docs(b, [doc(active=False)], source="test")
    assert (result.status, platform.calls["ai"]) == ("indexed", 1)
    search = worker.schemas.SearchRequest
    assert (await worker.core.search_docs(b, search(query="loop"))).hits == []
    (hit,) = (await worker.core.search_docs(b, search(query="loop", active=None))).hits
    assert (hit.id, hit.active) == ("a", False)


async def test_calls_per_operation_are_those_of_the_design(
    worker: Any, b: Any, doc: Any, platform: Any
) -> None:
    async def counted(work: Any) -> dict[str, int]:
        timing = worker.timing.start()
        await work
        return dict(timing.calls)

    core = worker.core
    await worker.model_state.current(b)
    assert await counted(core.ingest_docs(b, [doc()], source="t")) == {"d1": 2, "ai": 1, "vectorize": 1}
    assert await counted(core.ingest_docs(b, [doc()], source="t")) == {"d1": 1}
    hundred = [doc(f"n{at}", f"Text number {at}.") for at in range(100)]
    assert await counted(core.ingest_docs(b, hundred, source="t")) == {"d1": 2, "ai": 1, "vectorize": 1}
    search = worker.schemas.SearchRequest
    assert await counted(core.search_docs(b, search(query="text"))) == {"ai": 1, "vectorize": 1}
    assert await counted(core.search_docs(b, search(query="text", tags=["x"]))) == {"ai": 1, "vectorize": 2}
    assert await counted(core.get_doc(b, "a")) == {"d1": 1, "vectorize": 1}
    assert await counted(core.delete_docs(b, ["a"])) == {"d1": 2, "vectorize": 1}


async def test_one_bad_document_does_not_fail_the_others(worker: Any, b: Any, doc: Any) -> None:
    documents = [doc("a", "Good."), doc("b", "x" * 20_000), doc("c", "Good too.")]
    first, second, third = await worker.core.ingest_docs(b, documents, source="test")
    assert (first.status, third.status) == ("indexed", "indexed")
    assert (second.status, second.limit) == (413, 10_240)
    assert second.actual > 20_000


async def test_of_one_id_twice_in_a_batch_the_later_document_stays(worker: Any, b: Any, doc: Any) -> None:
    first, second = await worker.core.ingest_docs(b, [doc("a", "Old."), doc("a", "New.")], source="test")
    assert (first.status, second.status) == ("indexed", "indexed")
    assert (await worker.core.get_doc(b, "a")).body == "New."
