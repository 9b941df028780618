"""What a document, a search and a list may hold; each refusal names field, value, limit and way out."""

from typing import Any

import pytest

from .conftest import Client

DOCUMENT = {"id": "a", "body": "Tuples are immutable."}


async def refused(client: Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await client.post(path, json=body)
    assert answer.status_code == 422, answer.text
    problem: dict[str, Any] = answer.json()
    return problem


@pytest.mark.parametrize(
    ("changed", "field", "detail"),
    [
        ({"id": ""}, "id", "must not be empty"),
        ({"id": "a" * 65}, "id", "has 65 UTF-8 bytes; at most 64"),
        ({"id": "é" * 33}, "id", "has 66 UTF-8 bytes; at most 64"),
        ({"id": "."}, "id", 'must not be "."'),
        ({"id": ".."}, "id", 'must not be "."'),
        ({"id": "a\nb"}, "id", "control characters"),
        ({"id": "e\u0301"}, "id", "normal form NFC"),
        ({"id": 7}, "id", "= 7: input should be a valid string"),
        ({"body": "  \n"}, "body", "must hold some text"),
        ({"title": 3}, "title", "valid string"),
        ({"tags": ["a", "b", "c"]}, "tags", "has 3 different tags; at most 2"),
        ({"tags": ["x" * 65]}, "tags[0]", "has 65 UTF-8 bytes; at most 64"),
        ({"tags": [""]}, "tags[0]", "must not be empty"),
        ({"tags": "a"}, "tags", "must be an array"),
        ({"active": "yes"}, "active", "must be true or false"),
        ({"active": 1}, "active", "must be true or false"),
        ({"forceReindex": "no"}, "forceReindex", "must be true or false"),
        ({"force_reindex": True}, "force_reindex", "unknown key"),
        ({"extra": 1}, "extra", "unknown key"),
        ({"metadata": {"chaptre": "types"}}, "metadata.chaptre", "did you mean chapter?"),
        (
            {"metadata": {"zzz": 1}},
            "metadata.zzz",
            "declared are author, chapter, class, draft, level, words",
        ),
        ({"metadata": {"chapter": "other"}}, "metadata.chapter", "must be one of 'types', 'syntax'"),
        ({"metadata": {"words": "7"}}, "metadata.words", "must be a number"),
        ({"metadata": {"words": True}}, "metadata.words", "must be a number"),
        ({"metadata": {"words": 2**53 + 1}}, "metadata.words", "must be an integer within"),
        ({"metadata": {"draft": 0}}, "metadata.draft", "must be true or false"),
        ({"metadata": {"level": 3}}, "metadata.level", "must be one of 1, 2"),
        ({"metadata": {"author": "x" * 65}}, "metadata.author", "at most 64"),
        ({"metadata": {"author": None}}, "metadata.author", "valid string"),
    ],
)
async def test_a_bad_document_is_refused_by_name(
    client: Client, changed: dict[str, Any], field: str, detail: str
) -> None:
    problem = await refused(client, "/v1/ingest", {**DOCUMENT, **changed})
    assert problem["field"] == field
    assert detail in problem["detail"]


async def test_limits_and_sizes_are_numbers_of_their_own(client: Client) -> None:
    problem = await refused(client, "/v1/ingest", {**DOCUMENT, "id": "é" * 40})
    assert (problem["limit"], problem["actual"]) == (64, 80)
    problem = await refused(client, "/v1/search", {"query": "q", "topK": 51})
    assert (problem["limit"], problem["actual"]) == (50, 51)


async def test_every_fault_is_listed(client: Client) -> None:
    problem = await refused(client, "/v1/ingest", {"id": "", "tags": 1})
    assert [each["field"] for each in problem["errors"]] == ["id", "body", "tags"]


async def test_refused_text_is_never_repeated(client: Client) -> None:
    for changed in ({"body": ["hidden"]}, {"title": ["hidden"]}):
        assert "hidden" not in str(await refused(client, "/v1/ingest", {**DOCUMENT, **changed}))
    assert "hidden" not in str(await refused(client, "/v1/search", {"query": ["hidden"]}))


@pytest.mark.parametrize(
    "document",
    [
        {"id": "é" * 32, "body": "x"},
        {"id": "a/b c?d#e%2F", "body": "x"},
        {"id": "a", "title": None, "body": "x"},
        {"id": "a", "body": "x", "tags": ["b", "a", "b", "a"]},
        {"id": "a", "body": "x", "metadata": {"words": 1.5, "draft": False, "class": "y" * 500}},
        {"id": "a", "body": "x", "active": False, "forceReindex": True},
        {"id": "\U0001f600", "body": "\u0000 x"},
    ],
)
async def test_what_is_within_the_rules_is_taken(client: Client, document: dict[str, Any]) -> None:
    answer = await client.post("/v1/ingest", json=document)
    assert answer.status_code == 200, answer.text
    assert answer.json()["id"] == document["id"]


@pytest.mark.parametrize(
    ("changed", "field", "detail"),
    [
        ({"query": ""}, "query", "must hold some text"),
        ({"topK": 0}, "topK", "greater than or equal to 1"),
        ({"topK": "5"}, "topK", "valid integer"),
        ({"topK": True}, "topK", "valid integer"),
        (
            {"filter": {"word": 1}},
            "filter.word",
            "filterable: author, chapter, draft, level, words; did you mean words?",
        ),
        ({"filter": {"class": "x"}}, "filter.class", "not filterable"),
        ({"filter": {"tags": "x"}}, "filter.tags", "no such metadata field"),
        ({"filter": {"words": "many"}}, "filter.words.$eq", "must be a number"),
        ({"filter": {"words": {"$regex": 1}}}, "filter.words.$regex", "unknown key"),
        ({"filter": {"words": {}}}, "filter.words", "needs an operator"),
        ({"filter": {"words": {"$gt": 1, "$eq": 2}}}, "filter.words", "can't combine"),
        ({"filter": {"words": {"$gt": 1, "$gte": 2}}}, "filter.words", "can't combine"),
        ({"filter": {"words": {"$in": []}}}, "filter.words.$in", "at least 1"),
        ({"filter": {"words": {"$in": 3}}}, "filter.words.$in", "must be an array"),
        ({"filter": {"draft": {"$gt": False}}}, "filter.draft.$gt", "unknown key"),
        ({"filter": {"chapter": {"$lt": "types"}}}, "filter.chapter.$lt", "unknown key"),
        ({"filter": {"chapter": {"$in": ["types", "x"]}}}, "filter.chapter.$in[1]", "must be one of"),
        ({"filter": {"author": {"$ne": "x" * 65}}}, "filter.author.$ne", "at most 64"),
        ({"filter": {"author": {"$or": ["x"]}}}, "filter.author.$or", "unknown key"),
        ({"filter": [1]}, "filter", "must be an object"),
        ({"tags": ["x" * 65]}, "tags[0]", "at most 64"),
        ({"active": "all"}, "active", "must be true or false"),
    ],
)
async def test_a_bad_search_is_refused_by_name(
    client: Client, changed: dict[str, Any], field: str, detail: str
) -> None:
    problem = await refused(client, "/v1/search", {"query": "q", **changed})
    assert problem["field"] == field
    assert detail in problem["detail"]


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ({"words": 10}, {"a"}),
        ({"words": {"$eq": 10}}, {"a"}),
        ({"words": {"$ne": 10}}, {"b"}),
        ({"words": {"$gt": 10, "$lte": 20}}, {"b"}),
        ({"words": {"$gte": 10, "$lt": 20}}, {"a"}),
        ({"words": {"$in": [10, 20]}}, {"a", "b"}),
        ({"words": {"$nin": [20]}}, {"a"}),
        ({"draft": True}, {"b"}),
        ({"chapter": "types"}, {"a"}),
        ({"author": {"$gte": "gu", "$lt": "gv"}}, {"a"}),
        ({"level": {"$gt": 1}}, {"b"}),
        ({"chapter": "types", "draft": True}, set()),
    ],
)
async def test_every_operator_finds_what_it_says(
    client: Client, conditions: dict[str, Any], found: set[str]
) -> None:
    first = {"chapter": "types", "words": 10, "draft": False, "level": 1, "author": "guido"}
    second = {"chapter": "syntax", "words": 20, "draft": True, "level": 2, "author": "tim"}
    documents = [
        {"id": "a", "body": "Tuples are immutable.", "metadata": first},
        {"id": "b", "body": "The walrus is an operator.", "metadata": second},
    ]
    await client.post("/v1/ingest/batch", json={"documents": documents})
    answer = await client.post("/v1/search", json={"query": "tuples", "filter": conditions})
    assert answer.status_code == 200, answer.text
    assert {hit["id"] for hit in answer.json()["hits"]} == found


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("limit=21&content=true", "limit"),
        ("a=1", "a"),
    ],
)
async def test_a_bad_list_query_is_refused(client: Client, query: str, field: str) -> None:
    answer = await client.get(f"/v1/docs?{query}")
    assert answer.status_code == 422
    assert answer.json()["field"] == field


async def test_a_bad_id_in_a_path_or_a_list_is_refused(client: Client) -> None:
    for path in (f"/v1/docs/{'a' * 65}", "/v1/docs/a%00b"):
        for method in ("GET", "DELETE"):
            answer = await client.request(method, path)
            assert answer.status_code == 422
            assert answer.json()["field"] == "id"
    problem = await refused(client, "/v1/docs/delete", {"ids": ["a", "b" * 65]})
    assert problem["field"] == "ids[1]"
