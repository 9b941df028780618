"""Configs at the edges: no fields, names that mean something in Python, every kind of enum."""

from types import SimpleNamespace
from typing import Any

import pytest

from .conftest import BEARER, connect
from .loading import rendered

AWKWARD: dict[str, Any] = {
    "class": {"type": "string"},
    "model_config": {"type": "number", "enum": [1, 2.5]},
    "copy": {"type": "boolean", "enum": [True]},
    "json": {
        "type": "string",
        "enum": ["it's", '"quoted"', "</script>", "{{ x }}", "\u2028"],
        "filterable": False,
    },
    "schema": {"type": "string", "filterable": False, "description": 'A "description" with \\ and \n in it'},
}
GOOD = {"class": "a", "model_config": 2.5, "copy": True, "json": "{{ x }}", "schema": "long " * 50}


async def test_a_service_without_fields_takes_documents_without_any(env: SimpleNamespace) -> None:
    async with connect(rendered(metadata={}), env, **BEARER) as client:
        assert (await client.post("/v1/ingest", json={"id": "a", "body": "text"})).status_code == 200
        found = await client.post("/v1/search", json={"query": "text", "filter": {}})
        assert [hit["id"] for hit in found.json()["hits"]] == ["a"]
        refused = await client.post("/v1/search", json={"query": "text", "filter": {"words": 1}})
        assert "filterable: none" in refused.json()["detail"]
        assert (await client.get("/openapi.json")).status_code == 200
        assert (await client.get("/")).status_code == 200


async def test_names_and_values_may_be_anything_that_the_config_takes(env: SimpleNamespace) -> None:
    async with connect(rendered(metadata=AWKWARD), env, **BEARER) as client:
        document = {"id": "a", "body": "text", "metadata": GOOD}
        assert (await client.post("/v1/ingest", json=document)).status_code == 200
        assert (await client.get("/v1/docs/a")).json()["metadata"] == GOOD
        schemas = (await client.get("/openapi.json")).json()["components"]["schemas"]
        assert set(schemas["Metadata"]["properties"]) == set(AWKWARD)
        assert schemas["Metadata"]["properties"]["schema"]["description"] == AWKWARD["schema"]["description"]


@pytest.mark.parametrize(
    "metadata", [{"copy": False}, {"model_config": 2}, {"json": "its"}, {"class": 1}, {"model_config": True}]
)
async def test_enums_of_every_type_are_closed(env: SimpleNamespace, metadata: dict[str, Any]) -> None:
    async with connect(rendered(metadata=AWKWARD), env, **BEARER) as client:
        answer = await client.post("/v1/ingest", json={"id": "a", "body": "text", "metadata": metadata})
        assert answer.status_code == 422
        (name,) = metadata
        assert answer.json()["field"] == f"metadata.{name}"


@pytest.mark.parametrize("description", ["</p><script>alert(1)</script>", 'a" onload="x', "{{ 7 * 7 }}"])
async def test_descriptions_are_text_on_both_pages(env: SimpleNamespace, description: str) -> None:
    fields = {"words": {"type": "number", "description": description}}
    async with connect(rendered(metadata=fields), env, **BEARER) as client:
        for path in ("/", "/docs"):
            page = (await client.get(path)).text
            assert "<script>alert" not in page
            assert '" onload="' not in page
            assert "49" not in page.partition("words")[2][:200]


async def test_the_limits_of_the_config_are_those_of_the_api(env: SimpleNamespace) -> None:
    worker = rendered(search={"defaultTopK": 2, "maxTopK": 3}, tags={"maxPerDocument": 1})
    async with connect(worker, env, **BEARER) as client:
        documents = [{"id": f"d{number}", "body": f"text {number}"} for number in range(5)]
        await client.post("/v1/ingest/batch", json={"documents": documents})
        assert len((await client.post("/v1/search", json={"query": "text"})).json()["hits"]) == 2
        assert (await client.post("/v1/search", json={"query": "text", "topK": 4})).json()["limit"] == 3
        two = {"id": "a", "body": "text", "tags": ["a", "b"]}
        assert (await client.post("/v1/ingest", json=two)).json()["limit"] == 1
