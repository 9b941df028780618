"""Batches: a result per document, in order, whatever its neighbours are; many ids on every path."""

from typing import Any

from .conftest import Client


def document(number: int, **changed: Any) -> dict[str, Any]:
    return {"id": f"doc-{number:03}", "body": f"Text number {number}.", **changed}


async def ingest(client: Client, *entries: Any) -> list[dict[str, Any]]:
    answer = await client.post("/v1/ingest/batch", json={"documents": entries})
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


async def test_one_bad_document_does_not_fail_the_others(client: Client) -> None:
    bad = [document(2, metadata={"nope": 1}), None, document(4, body="x" * 11_000), {"id": ["list"]}, "text"]
    results = await ingest(client, document(1), *bad, document(7))
    assert [result["status"] for result in results] == ["indexed", *["failed"] * 5, "indexed"]
    assert [result["id"] for result in results] == [
        "doc-001",
        "doc-002",
        None,
        "doc-004",
        None,
        None,
        "doc-007",
    ]
    statuses = [result["problem"]["status"] for result in results[1:-1]]
    assert statuses == [422, 422, 413, 422, 422]
    assert results[1]["problem"]["field"] == "metadata.nope"
    assert results[3]["problem"]["limit"] == 10_240
    assert (await client.get("/v1/docs/doc-007")).json()["body"] == "Text number 7."


async def test_a_failed_document_has_its_problem_and_the_requests_id(client: Client) -> None:
    answer = await client.post("/v1/ingest/batch", json={"documents": [document(1, body="")]})
    problem = answer.json()["results"][0]["problem"]
    assert problem["requestId"] == answer.headers["x-request-id"]


async def test_an_endless_id_is_not_repeated(client: Client) -> None:
    (result,) = await ingest(client, {"id": "x" * 100_000, "body": "text"})
    assert len(str(result)) < 1_000


async def test_the_same_batch_again_is_skipped(client: Client) -> None:
    documents = [document(number) for number in range(5)]
    first = await ingest(client, *documents)
    again = await ingest(client, *documents)
    assert [result["status"] for result in again] == ["skipped"] * 5
    assert [result["contentHash"] for result in again] == [result["contentHash"] for result in first]


async def test_250_ids_pass_through_every_path(client: Client) -> None:
    documents = [document(number) for number in range(250)]
    for start in range(0, 250, 100):
        assert {result["status"] for result in await ingest(client, *documents[start : start + 100])} == {
            "indexed"
        }
    ids, cursor = [], None
    while True:
        query = {"limit": 20, "content": True, **({"cursor": cursor} if cursor else {})}
        page = (await client.get("/v1/docs", params=query)).json()
        ids += [each["id"] for each in page["documents"]]
        assert all(each["body"].startswith("Text number") for each in page["documents"])
        cursor = page["cursor"]
        if cursor is None:
            break
    assert ids == [each["id"] for each in documents]
    answer = await client.post("/v1/docs/delete", json={"ids": [*ids, "never-there"]})
    assert [result["status"] for result in answer.json()["results"]] == [*["deleted"] * 250, "missing"]
    assert (await client.get("/v1/docs")).json()["documents"] == []


async def test_the_documents_written_last_come_first(client: Client) -> None:
    for number in (2, 1, 3):
        await ingest(client, document(number))
    listed = (await client.get("/v1/docs", params={"order": "recent", "limit": 2})).json()
    assert [each["id"] for each in listed["documents"]] == ["doc-003", "doc-001"]
    assert listed["cursor"] is None
    assert (await client.get("/v1/docs", params={"order": "recent", "cursor": "x"})).status_code == 422


async def test_a_list_without_content_has_states_only(client: Client) -> None:
    await ingest(client, document(1, title="T", tags=["t"]))
    (listed,) = (await client.get("/v1/docs")).json()["documents"]
    assert listed.keys() == {"id", "state", "active", "contentHash", "embedModel", "indexedAt"}


async def test_one_document_through_its_whole_life(client: Client) -> None:
    whole = document(1, title="T", tags=["b", "a"], metadata={"words": 3, "class": "x"}, id="a/b ü?#%")
    path = "/v1/docs/a%2Fb%20%C3%BC%3F%23%25"
    assert (await client.post("/v1/ingest", json=whole)).json()["status"] == "indexed"
    got = (await client.get(path)).json()
    assert {key: got[key] for key in ("id", "state", "title", "body", "metadata", "active")} == {
        "id": "a/b ü?#%",
        "state": "indexed",
        "title": "T",
        "body": "Text number 1.",
        "metadata": {"words": 3, "class": "x"},
        "active": True,
    }
    assert sorted(got["tags"]) == ["a", "b"]
    for tag in ("a", "b"):
        hits = (await client.post("/v1/search", json={"query": "number", "tags": [tag]})).json()["hits"]
        assert [hit["id"] for hit in hits] == ["a/b ü?#%"]
    assert (await client.delete(path)).json() == {"id": "a/b ü?#%", "status": "deleted"}
    assert (await client.delete(path)).json()["status"] == "missing"
    assert (await client.get(path)).status_code == 404
