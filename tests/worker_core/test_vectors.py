"""Vectorize: limits, filters, tags and metrics."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra import catalog
from infra.config import RagConfig
from tests.worker_core.conftest import bind, config, create_index
from tests.worker_core.loading import Version, render
from tests.worker_core.platform_bindings import Platform

IDS = [f"doc/{at:03}" for at in range(250)]


@pytest.fixture
async def many(worker: Any, b: Any, doc: Any) -> list[Any]:
    documents = [doc(doc_id, f"Passage number {at}.") for at, doc_id in enumerate(IDS)]
    results: list[Any] = await worker.core.ingest_docs(b, documents, source="test")
    return results


async def test_250_ids_go_through_every_path_that_takes_ids(
    worker: Any, b: Any, many: list[Any], platform: Platform
) -> None:
    assert {result.status for result in many} == {"indexed"}
    assert len(await worker.vectors.get(b.vectorize, IDS)) == 250
    state = await worker.model_state.current(b)
    assert len(await worker.store.rows(b.db, IDS, state.serving)) == 250
    assert await worker.repairs.verify(b, state, IDS) == set()
    outcome = await worker.rewrite.rewrite(b, state, IDS)
    assert (outcome.later, outcome.failed) == (set(), {})

    seen: list[str] = []
    cursor = None
    while cursor is not None or not seen:
        page = await worker.core.list_docs(b, cursor, 100, False)
        seen += [document.id for document in page.documents]
        cursor = page.cursor
    assert seen == IDS

    await worker.repairs.lost(b, state, IDS)
    deleted = await worker.core.delete_docs(b, [*IDS, "unknown"])
    assert [result.status for result in deleted] == ["deleted"] * 250 + ["missing"]
    assert platform.vectorize.info("g1")["vectorCount"] == 0


@given(wanted=st.integers(-10, 10_000))
def test_no_wish_leads_to_more_than_vectorize_answers(wanted: int, clamp: Callable[[int], int]) -> None:
    most = catalog.VECTORIZE_TOP_K_WITH_CONTENT.value
    assert 1 <= clamp(wanted) <= most
    assert clamp(wanted) == wanted or not 1 <= wanted <= most


@pytest.fixture(scope="module")
def clamp(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], int]:
    function: Callable[[int], int] = Version(
        render(config(), tmp_path_factory.mktemp("clamp"))
    ).vectors.clamp_top_k
    return function


async def test_fifty_hits_come_back_and_fifty_one_are_refused(worker: Any, b: Any, many: list[Any]) -> None:
    search = worker.schemas.SearchRequest
    found = await worker.core.search_docs(b, search(query="passage", topK=50))
    assert len(found.hits) == 50
    with pytest.raises(ValueError, match="less than or equal to 50"):
        search(query="passage", topK=51)


async def test_documents_with_two_tags_are_found_by_either(worker: Any, b: Any, doc: Any) -> None:
    await worker.core.ingest_docs(
        b, [doc("one", tags=["zeta", "alpha"]), doc("two", tags=["alpha"]), doc("none")], source="test"
    )

    async def found(*tags: str) -> set[str]:
        request = worker.schemas.SearchRequest(query="loop", tags=list(tags))
        hits = (await worker.core.search_docs(b, request)).hits
        assert len({hit.id for hit in hits}) == len(hits), "a document that is found twice is one hit"
        return {hit.id for hit in hits}

    assert await found("alpha") == {"one", "two"}
    assert await found("zeta") == {"one"}
    assert await found("alpha", "zeta") == {"one", "two"}
    assert await found("beta") == set()


async def test_hits_of_several_tag_properties_are_the_best_of_all(worker: Any, b: Any, doc: Any) -> None:
    documents = [
        doc(f"n{at}", f"Loop {'loop ' * at}", tags=["a", "z"] if at % 2 else ["z"]) for at in range(8)
    ]
    await worker.core.ingest_docs(b, documents, source="test")
    search = worker.schemas.SearchRequest
    every = (await worker.core.search_docs(b, search(query="loop"))).hits
    best = (await worker.core.search_docs(b, search(query="loop", tags=["z"], topK=3))).hits
    assert [hit.id for hit in best] == [hit.id for hit in every[:3]]


async def test_filters_on_typed_fields(worker: Any, b: Any, doc: Any) -> None:
    await worker.core.ingest_docs(
        b,
        [
            doc("old", metadata={"year": 1991, "chapter": "types", "draft": False}),
            doc("new", metadata={"year": 2024, "chapter": "statements", "draft": True}),
            doc("bare"),
        ],
        source="test",
    )

    async def found(**conditions: Any) -> list[str]:
        request = worker.schemas.SearchRequest(query="loop", filter=conditions)
        return sorted(hit.id for hit in (await worker.core.search_docs(b, request)).hits)

    assert await found(year={"$gte": 2000}) == ["new"]
    assert await found(year={"$gt": 1990, "$lt": 2000}) == ["old"]
    assert await found(chapter={"$in": ["types", "statements"]}) == ["new", "old"]
    assert await found(chapter="types") == ["old"]
    assert await found(draft=False) == ["old"]
    assert await found(year={"$lte": 2024}, draft=True) == ["new"]


async def test_an_unindexed_property_matches_nothing_and_the_worker_refuses_it(
    worker: Any, b: Any, doc: Any, platform: Platform
) -> None:
    await worker.core.ingest_docs(b, [doc(metadata={"note": "n"})], source="test")
    options = {"topK": 5, "returnMetadata": "all", "filter": {"note": "n"}}
    assert platform.vectorize.query("g1", [1.0] * 384, options)["matches"] == []
    with pytest.raises(ValueError, match="note"):
        worker.schemas.SearchRequest(query="loop", filter={"note": "n"})


async def test_a_filter_over_vectorizes_limit_is_refused_with_its_size(worker: Any, b: Any) -> None:
    request = worker.schemas.SearchRequest(
        query="q", filter={"year": {"$in": [1e9 + at for at in range(300)]}}
    )
    with pytest.raises(worker.errors.Problem) as refused:
        await worker.core.search_docs(b, request)
    assert (refused.value.status, refused.value.limit) == (422, 2047)
    assert refused.value.actual > 2047


@pytest.mark.parametrize("metric", ["euclidean", "dot-product"])
async def test_the_best_hit_is_first_under_every_metric(
    render_version: Callable[[RagConfig], Version], platform: Platform, metric: str
) -> None:
    wanted = config(embedding={"model": "@cf/baai/bge-small-en-v1.5", "metric": metric, "generation": 2})
    create_index(platform.vectorize, "g2", wanted)
    version = render_version(wanted)
    b = bind(version, platform, wanted)
    make, search = version.schemas.Document, version.schemas.SearchRequest
    texts = {"loop": "A while loop repeats its block.", "tea": "Tea is made with water."}
    documents = [make(id=name, body=text, tags=["t"]) for name, text in texts.items()]
    await version.core.ingest_docs(b, documents, source="test")
    for tags in ([], ["t"]):
        hits = (await version.core.search_docs(b, search(query="repeat a block in a loop", tags=tags))).hits
        assert [hit.id for hit in hits] == ["loop", "tea"]


@pytest.mark.parametrize(
    ("error", "calls", "status"),
    [
        ("VECTOR_QUERY_ERROR (code = 40006): invalid query vector, expected 384 dimensions", 1, 503),
        ("VECTOR_QUERY_ERROR (code = 40025): max top K is 50", 1, 502),
        ("VECTOR_QUERY_ERROR (code = 40041): Too Many Requests", 3, 503),
        ("Network connection lost.", 3, 503),
    ],
)
async def test_errors_of_vectorize(
    worker: Any,
    b: Any,
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
    error: str,
    calls: int,
    status: int,
) -> None:
    monkeypatch.setattr(worker.retries, "DELAYS", (0, 0))
    platform.faults.before["vectorize"] = [RuntimeError(error)] * 3
    with pytest.raises(worker.errors.Problem) as raised:
        await worker.core.search_docs(b, worker.schemas.SearchRequest(query="q"))
    assert (raised.value.status, platform.calls["vectorize.query"]) == (status, calls)


async def test_a_document_that_can_not_be_seen_yet_is_indexing(
    worker: Any, b: Any, doc: Any, platform: Platform
) -> None:
    platform.vectorize.delay = 3600
    await worker.core.ingest_docs(b, [doc(body="First.")], source="test")
    unseen = await worker.core.get_doc(b, "a")
    assert (unseen.state, unseen.body, unseen.content_hash) == (
        "indexing",
        None,
        (platform.row("a") or {})["content_hash"],
    )
    (listed,) = (await worker.core.list_docs(b, None, 20, True)).documents
    assert (listed.state, listed.body) == ("indexing", None)
    platform.vectorize.delay = 0
