"""The application as a whole: its description, its errors, what each answer carries, what is logged."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from .conftest import BEARER, Client, connect, log_lines
from .loading import rendered

OVERDUE: dict[str, str] = {}
DATA_ROUTES = {
    ("post", "/v1/ingest"),
    ("post", "/v1/ingest/batch"),
    ("post", "/v1/search"),
    ("get", "/v1/docs"),
    ("get", "/v1/docs/{id}"),
    ("delete", "/v1/docs/{id}"),
    ("post", "/v1/docs/delete"),
    ("get", "/v1/stats"),
    ("get", "/v1/space"),
}


@pytest.fixture
async def description(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get("/openapi.json")).json()
    return found


def operations(description: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    paths = description["paths"].items()
    return {(method, path): each for path, methods in paths for method, each in methods.items()}


async def test_the_description_has_every_data_route_behind_the_security_scheme(
    description: dict[str, Any],
) -> None:
    found = operations(description)
    assert found.keys() >= DATA_ROUTES
    assert description["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    for key in DATA_ROUTES:
        assert found[key]["security"] == [{"bearer": []}]
    assert "security" not in found["get", "/health"]


async def test_every_operation_has_its_own_id_a_description_and_problems(description: dict[str, Any]) -> None:
    found = operations(description)
    ids = [operation["operationId"] for operation in found.values()]
    assert len(set(ids)) == len(ids)
    assert {"listDocuments", "search", "ingestMany"} <= set(ids)
    for key in DATA_ROUTES:
        assert found[key]["description"]
        assert found[key]["tags"]
        assert {"401", "403"} <= found[key]["responses"].keys()
        for status, answer in found[key]["responses"].items():
            assert (list(answer["content"]) == ["application/problem+json"]) == (int(status) >= 400)


async def test_every_reference_in_the_description_leads_somewhere(description: dict[str, Any]) -> None:
    names = set(re.findall(r"'#/components/schemas/(\w+)'", str(description)))
    assert names <= description["components"]["schemas"].keys()
    assert {"Document", "SearchRequest", "Problem", "Metadata", "Filter"} <= names


async def test_the_description_has_the_fields_of_the_config(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    metadata = schemas["Metadata"]["properties"]
    assert metadata["chapter"] == {
        "type": "string",
        "enum": ["types", "syntax"],
        "description": "Part of the docs.",
    }
    assert metadata["words"] == {"type": "number"}
    assert metadata["class"]["description"] == "A Python keyword."
    assert schemas["Metadata"]["additionalProperties"] is False
    assert set(schemas["Filter"]["properties"]) == {"chapter", "words", "draft", "level", "author"}
    assert schemas["SearchRequest"]["properties"]["topK"]["maximum"] == 50


async def test_the_docs_page_is_complete_and_loads_nothing(client: Client) -> None:
    answer = await client.get("/docs")
    page, policy = answer.text, answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert not re.search(r"<script|<link|<img|@import|url\(|https?://", page)
    for _, path in DATA_ROUTES:
        assert path in page
    assert "Part of the docs." in page


async def test_the_description_is_public_only_by_config(env: SimpleNamespace) -> None:
    for public, status in ((True, 200), (False, 401)):
        async with connect(rendered(docsPublic=public), env) as client:
            for path in ("/openapi.json", "/docs"):
                assert (await client.get(path)).status_code == status


async def test_an_unknown_route_is_a_404_problem(stranger: Client) -> None:
    answer = await stranger.get("/v2/nothing")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == 404
    assert problem["requestId"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("PUT", "/v1/docs/a", {"GET", "DELETE"}), ("GET", "/v1/search", {"POST"}), ("POST", "/health", {"GET"})],
)
async def test_another_method_is_a_405_that_names_those_there_are(
    client: Client, method: str, path: str, allowed: set[str]
) -> None:
    answer = await client.request(method, path)
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == allowed
    assert answer.json()["type"].endswith(":method-not-allowed")


async def test_an_unexpected_error_is_a_500_problem_that_tells_nothing(
    client: Client, env: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    env.DB = SimpleNamespace(prepare=lambda sql: OVERDUE["text of the document"])
    answer = await client.get("/v1/docs")
    assert answer.status_code == 500
    problem = answer.json()
    assert problem["type"].endswith(":internal")
    assert "Traceback" not in answer.text
    assert "text of the document" not in answer.text
    logged = capsys.readouterr().err
    assert "text of the document" not in logged
    where = next(line for line in log_lines(logged) if line["message"] == "unexpected error")
    assert where["requestId"] == problem["requestId"]
    assert where["error"] == "KeyError"
    assert any(frame.startswith("store.py:") for frame in where["at"])


@pytest.mark.parametrize("ray", ["8f1d3c5a7b9e0d2c-FRA", "0123456789abcdef"])
async def test_cloudflares_own_request_id_is_kept(stranger: Client, ray: str) -> None:
    answer = await stranger.get("/health", headers={"cf-ray": ray})
    assert answer.headers["x-request-id"] == ray


@pytest.mark.parametrize("ray", ["", "x", "a b c d e f g", "a" * 65, 'a","level":"b', "ключ-ключ-ключ"])
async def test_a_request_id_that_is_none_is_replaced(stranger: Client, ray: str) -> None:
    answer = await stranger.get("/health", headers={b"cf-ray": ray.encode()})
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])


async def test_request_ids_differ(stranger: Client) -> None:
    ids = {(await stranger.get("/health")).headers["x-request-id"] for _ in range(5)}
    assert len(ids) == 5


async def test_server_timing_counts_the_calls(client: Client) -> None:
    await client.post("/v1/ingest", json={"id": "a", "body": "Tuples are immutable."})
    answer = await client.post("/v1/search", json={"query": "what is a tuple"})
    assert answer.status_code == 200
    metrics = dict(re.findall(r'(\w+);dur=[\d.]+;desc="(\d+) calls?"', answer.headers["server-timing"]))
    assert metrics["embed"] == "1"
    assert metrics["vectorize"] == "1"
    assert "d1" in metrics


async def test_each_request_is_one_line_without_what_was_asked(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    await client.post("/v1/ingest", json={"id": "secret-id", "title": "hidden title", "body": "hidden body"})
    await client.post("/v1/search", json={"query": "hidden query"})
    await client.get("/v1/docs/secret-id")
    captured = capsys.readouterr()
    assert "hidden" not in captured.out + captured.err
    lines = [line for line in log_lines(captured.out) if line["message"] == "request"]
    assert [(line["method"], line["route"], line["status"]) for line in lines] == [
        ("POST", "/v1/ingest", 200),
        ("POST", "/v1/search", 200),
        ("GET", "/v1/docs/{id:path}", 200),
    ]
    assert all(line["ms"] >= 0 and line["requestId"] and line["caller"] == "internal" for line in lines)
    assert lines[1]["calls"]["ai"] == 1


async def test_nothing_is_cached_or_sniffed(stranger: Client) -> None:
    headers = (await stranger.get("/health")).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


async def test_browsers_elsewhere_get_nothing_unless_the_config_says_so(env: SimpleNamespace) -> None:
    asked = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    async with connect(rendered(), env, **BEARER) as client:
        assert (
            "access-control-allow-origin" not in (await client.options("/v1/search", headers=asked)).headers
        )
    async with connect(rendered(cors={"origins": ["https://app.example"]}), env) as client:
        allowed = await client.options("/v1/search", headers=asked)
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        refused = await client.get("/v1/stats", headers={"Origin": "https://app.example"})
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == "https://app.example"
        other = await client.options("/v1/search", headers={**asked, "Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
