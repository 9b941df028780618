"""Backups over HTTP: what the space is, vectors out, and documents in again with the vectors they had."""

from types import SimpleNamespace
from typing import Any

import pytest

from .conftest import Client, connect
from .loading import rendered

DOCUMENT: dict[str, Any] = {
    "id": "loops/01",
    "title": "Loops",
    "body": "A while loop repeats its block.",
    "tags": ["b", "a"],
    "metadata": {"chapter": "syntax", "words": 6, "draft": True},
    "active": False,
}
INTERNAL = ["/v1/internal/vectors", "/v1/internal/import"]


async def space(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get("/v1/space")).json()
    return found


async def exported(client: Client, *ids: str) -> dict[str, Any]:
    answer = await client.post("/v1/internal/vectors", json={"ids": ids})
    assert answer.status_code == 200, answer.text
    return {each["id"]: each for each in answer.json()["vectors"]}


async def imported(client: Client, *entries: Any) -> list[dict[str, Any]]:
    body = {"fingerprint": (await space(client))["fingerprint"], "documents": entries}
    answer = await client.post("/v1/internal/import", json=body)
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


async def test_the_space_is_described_for_who_reads(client: Client) -> None:
    found = await space(client)
    assert (found["name"], found["model"], found["dims"]) == ("pydocs", "@cf/baai/bge-base-en-v1.5", 768)
    assert found["fingerprint"].startswith("@cf/baai/bge-base-en-v1.5#")
    assert (found["settled"], found["since"], found["maxTags"]) == (True, 0, 2)
    assert found["fields"]["level"] == {
        "type": "number",
        "enum": [1, 2],
        "filterable": True,
        "description": None,
    }


async def test_a_document_comes_back_with_its_vector_and_without_a_call_of_ai(
    client: Client, env: SimpleNamespace
) -> None:
    (first,) = (await client.post("/v1/ingest/batch", json={"documents": [DOCUMENT]})).json()["results"]
    vector = (await exported(client, "loops/01", "none-such"))["loops/01"]
    assert vector["contentHash"] == first["contentHash"]
    await client.delete("/v1/docs/loops/01")
    assert await exported(client, "loops/01") == {}

    env.AI = None
    back = {**DOCUMENT, "values": vector["values"]}
    (again,) = await imported(client, back)
    assert again == {**first, "status": "indexed"}
    assert (await exported(client, "loops/01"))["loops/01"] == vector
    shown = (await client.get("/v1/docs/loops/01")).json()
    assert {name: shown[name] for name in DOCUMENT} == {**DOCUMENT, "tags": ["a", "b"]}
    assert (await imported(client, back))[0]["status"] == "skipped"


async def test_what_is_no_vector_of_the_space_fails_alone(client: Client) -> None:
    good = {"id": "good", "body": "text", "values": [0.1] * 768}
    entries: list[dict[str, Any]] = [
        {**good, "id": "short", "values": [0.1] * 767},
        {**good, "id": "huge", "values": [1e39] * 768},
        {**good, "id": "text", "values": ["0.1"] * 768},
        {**good, "id": "field", "metadata": {"nope": 1}},
        {"id": "none", "body": "text"},
        good,
    ]
    results = await imported(client, *entries)
    assert [each["status"] for each in results] == ["failed"] * 5 + ["indexed"]
    assert [each["id"] for each in results] == [each["id"] for each in entries]
    assert results[0]["problem"]["detail"] == "the vector has 767 values; the space has 768 dimensions"
    assert [each["problem"]["status"] for each in results[:5]] == [422] * 5
    listed = (await client.get("/v1/docs")).json()["documents"]
    assert [each["id"] for each in listed] == ["good"]


async def test_vectors_of_another_making_are_refused_as_a_whole(client: Client) -> None:
    documents = [{"id": "a", "body": "text", "values": [0.1] * 768}]
    body = {"fingerprint": "@cf/baai/bge-m3#0123456789ab", "documents": documents}
    answer = await client.post("/v1/internal/import", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, "fingerprint")
    assert "@cf/baai/bge-base-en-v1.5#" in answer.json()["detail"]
    assert (await client.get("/v1/docs")).json()["documents"] == []


@pytest.mark.parametrize("path", INTERNAL)
async def test_vectors_are_for_the_internal_secret_only(
    client: Client, env: SimpleNamespace, path: str
) -> None:
    made = await client.post("/v1/internal/keys", json={"name": "k", "scopes": ["read", "write"]})
    async with connect(rendered(), env, Authorization=f"Bearer {made.json()['key']}") as holder:
        assert (await holder.post(path, json={})).status_code == 403
        assert (await holder.get("/v1/space")).status_code == 200
    async with connect(rendered(), env) as stranger:
        assert (await stranger.post(path, json={})).status_code == 401
        assert (await stranger.get("/v1/space")).status_code == 401


async def test_a_list_goes_on_behind_an_id_that_need_not_be_there(client: Client) -> None:
    documents = [{"id": name, "body": "text"} for name in ("a", "b", "é", "😀")]
    await client.post("/v1/ingest/batch", json={"documents": documents})
    for after, behind in {"a": ["b", "é", "😀"], "az": ["b", "é", "😀"], "é": ["😀"], "😀": []}.items():
        page = (await client.get("/v1/docs", params={"after": after})).json()
        assert [each["id"] for each in page["documents"]] == behind
    for more in ({"cursor": "YQ"}, {"order": "recent"}):
        answer = await client.get("/v1/docs", params={"after": "a", **more})
        assert answer.status_code == 422
