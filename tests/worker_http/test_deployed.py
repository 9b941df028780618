"""The deployed Worker, from outside: HTTP, keys, queue and RPC, in the runtime that it is made for."""

import socket
import time
from collections.abc import Iterator
from http.client import HTTPResponse
from typing import Any

import httpx
import pytest

from infra.config import RagConfig

from .deployed import Deployment
from .engines import SECRET
from .loading import CONFIG

TUPLE = {
    "id": "types/tuple",
    "title": "Tuples",
    "body": "A tuple is an immutable sequence.",
    "tags": ["types"],
}
WALRUS = {"id": "syntax/walrus", "body": "The walrus operator assigns in an expression.", "tags": ["syntax"]}
DOCUMENTS = [
    {**TUPLE, "metadata": {"chapter": "types", "words": 6, "draft": False}},
    {**WALRUS, "metadata": {"chapter": "syntax", "words": 7, "draft": True}},
]


@pytest.fixture(scope="module")
def others(deployment: Deployment) -> dict[str, str]:
    """Addresses of more Workers: two that call the service by RPC, and three with the same data."""
    older = CONFIG | {"embedding": {"model": "@cf/baai/bge-small-en-v1.5"}}
    service = CONFIG | {"auth": {"mode": "service"}, "mcp": {"enabled": False}, "dashboard": False}
    return {
        "javascript": deployment.caller("javascript"),
        "python": deployment.caller("python"),
        "other dims": deployment.deploy("other-dims", deployment.config, EMBED_DIMS="1024"),
        "older": deployment.deploy("older", RagConfig.from_pulumi(older)),
        "service": deployment.deploy("service", RagConfig.from_pulumi(service)),
    }


@pytest.fixture(scope="module")
def client(deployment: Deployment, others: dict[str, str]) -> Iterator[httpx.Client]:
    # The others first: with each of them the process that they share starts again.
    with deployment.client() as opened:
        opened.post("/v1/ingest/batch", json={"documents": DOCUMENTS}).raise_for_status()
        yield opened


def eventually(condition: Any, seconds: float = 20.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.1)
    return value


def test_a_search_finds_by_meaning_tag_and_field(client: httpx.Client) -> None:
    for asked, first in (
        ({"query": "immutable sequence"}, "types/tuple"),
        ({"query": "assignment", "tags": ["syntax"]}, "syntax/walrus"),
        ({"query": "python", "filter": {"words": {"$gte": 7}}}, "syntax/walrus"),
        ({"query": "python", "filter": {"chapter": "types", "draft": False}}, "types/tuple"),
    ):
        answer = client.post("/v1/search", json=asked)
        assert answer.status_code == 200, answer.text
        assert answer.json()["hits"][0]["id"] == first


def test_a_document_is_read_listed_skipped_and_deleted(client: httpx.Client) -> None:
    document = {"id": "a/b ü", "body": "Text."}
    assert client.post("/v1/ingest", json=document).json()["status"] == "indexed"
    assert client.post("/v1/ingest", json=document).json()["status"] == "skipped"
    assert client.get("/v1/docs/a%2Fb%20%C3%BC").json()["body"] == "Text."
    listed = client.get("/v1/docs", params={"content": True}).json()["documents"]
    assert {"a/b ü", "types/tuple"} <= {each["id"] for each in listed}
    assert client.delete("/v1/docs/a%2Fb%20%C3%BC").json()["status"] == "deleted"
    assert client.get("/v1/docs/a%2Fb%20%C3%BC").status_code == 404


def test_a_forced_document_is_embedded_again(client: httpx.Client) -> None:
    forced = client.post("/v1/ingest", json={**DOCUMENTS[0], "forceReindex": True})
    assert forced.json()["status"] == "indexed"
    assert "embed" in forced.headers["server-timing"]
    assert client.post("/v1/ingest", json=DOCUMENTS[0]).json()["status"] == "skipped"


def test_content_is_in_vectorize_and_state_in_d1(deployment: Deployment, client: httpx.Client) -> None:
    document = DOCUMENTS[0]
    (vector,) = deployment.vectors(str(document["id"]))
    metadata = vector["metadata"]
    assert (metadata["rawBody"], metadata["title"]) == (document["body"], document["title"])
    assert str(document["body"]) in metadata["content"]
    assert metadata["content"] != metadata["rawBody"]
    (row,) = deployment.rows("SELECT * FROM documents WHERE id = ?", str(document["id"]))
    assert row["content_hash"] == metadata["contentHash"]
    stored = " ".join(map(str, row.values()))
    assert not any(text in stored for text in ("tuple is an", "Tuples", "chapter"))


def test_a_document_is_never_cut_into_pieces(deployment: Deployment, client: httpx.Client) -> None:
    body = "\n\n".join(f"# Part {part}\n\n" + "A sentence about parts. " * 40 for part in range(4))
    assert client.post("/v1/ingest", json={"id": "long", "body": body}).json()["status"] == "indexed"
    assert client.get("/v1/docs/long").json()["body"] == body
    hits = client.post("/v1/search", json={"query": "a sentence about parts", "topK": 50}).json()["hits"]
    assert [hit["body"] for hit in hits if hit["id"].startswith("long")] == [body]
    client.delete("/v1/docs/long").raise_for_status()


DATA_ROUTES = [
    ("POST", "/v1/ingest", WALRUS),
    ("POST", "/v1/ingest/batch", {"documents": [WALRUS]}),
    ("POST", "/v1/search", {"query": "x"}),
    ("GET", "/v1/docs", None),
    ("GET", "/v1/docs/syntax/walrus", None),
    ("DELETE", "/v1/docs/syntax/walrus", None),
    ("POST", "/v1/docs/delete", {"ids": ["syntax/walrus"]}),
]


@pytest.mark.parametrize("worker", ["other dims", "older"])
def test_where_dims_do_not_match_every_data_route_is_a_503(
    deployment: Deployment, others: dict[str, str], client: httpx.Client, worker: str
) -> None:
    with deployment.client(url=others[worker]) as mismatched:
        for method, path, body in DATA_ROUTES:
            answer = mismatched.request(method, path, json=body)
            assert answer.status_code == 503, path
            assert answer.json()["type"].endswith(":dims-mismatch")
            assert "768" in answer.json()["detail"]
        assert mismatched.get("/v1/stats").json()["state"] == "dims_mismatch"
    # Nothing has been touched, and the Worker that fits goes on.
    assert client.post("/v1/search", json={"query": "assignment"}).status_code == 200
    assert client.get("/v1/docs/syntax/walrus").json()["state"] == "indexed"


def test_a_service_for_other_workers_has_no_door(deployment: Deployment, others: dict[str, str]) -> None:
    with deployment.client(url=others["service"]) as service:
        assert service.get("/health").status_code == 200
        closed = [*DATA_ROUTES, ("GET", "/v1/stats", None), ("POST", "/mcp", {}), ("GET", "/", None)]
        for method, path, body in closed:
            assert service.request(method, path, json=body).status_code == 404, path


def test_stats_and_the_description_are_there(client: httpx.Client) -> None:
    stats = client.get("/v1/stats").json()
    assert stats["state"] in ("fresh", "ok")
    assert stats["documents"]["total"] >= 2
    assert "/v1/search" in client.get("/openapi.json").json()["paths"]
    assert "/v1/search" in client.get("/docs").text


@pytest.mark.parametrize("token", [None, "wrong", SECRET[:-1], "pi_" + "x" * 43, "\xff\xfe"])
def test_without_a_valid_token_it_is_a_401(deployment: Deployment, token: str | None) -> None:
    with deployment.client(None) as stranger:
        headers = {b"Authorization": b"Bearer " + token.encode("latin-1")} if token else {}
        for method, path in (("GET", "/v1/stats"), ("POST", "/v1/ingest"), ("GET", "/v1/internal/keys")):
            answer = stranger.request(method, path, headers=headers)
            assert answer.status_code == 401
            assert "Bearer" in answer.headers["www-authenticate"]


def test_a_key_is_made_used_and_revoked(deployment: Deployment, client: httpx.Client) -> None:
    made = client.post("/v1/internal/keys", json={"name": "reader", "scopes": ["read"]}).json()
    with deployment.client(made["key"]) as reader:
        assert reader.post("/v1/search", json={"query": "tuple"}).status_code == 200
        assert reader.post("/v1/ingest", json=TUPLE).status_code == 403
        client.delete(f"/v1/internal/keys/{made['id']}").raise_for_status()
        assert reader.post("/v1/search", json={"query": "tuple"}).status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"\xff", 400),
        (b"[" * 200_000, 400),
        (rb'{"id":"\ud800","body":"x"}', 400),
        (b'{"id":"a","body":"x","metadata":{"words":1e999}}', 422),
        (b" " * 4_300_000, 413),
        (b'{"id":"' + b"a" * 65 + b'","body":"x"}', 422),
        (b'{"id":"a","body":"' + b"x" * 11_000 + b'"}', 413),
    ],
)
def test_a_bad_body_is_a_problem(client: httpx.Client, body: bytes, status: int) -> None:
    answer = client.post("/v1/ingest", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["requestId"] == answer.headers["x-request-id"]


def test_a_body_without_a_length_is_cut_off_and_the_connection_goes_on(client: httpx.Client) -> None:
    answer = client.post("/v1/ingest", content=(b" " * 100_000 for _ in range(60)))
    assert answer.status_code == 413
    assert client.get("/health").status_code == 200


def test_a_path_that_is_no_utf8_is_a_400(client: httpx.Client) -> None:
    assert client.get("/v1/docs/%ff").status_code == 400


@pytest.mark.parametrize(
    "line",
    [
        b"GET /v1/docs/%00 HTTP/1.1",
        b"GET /%ff%fe HTTP/1.1",
        b"GET /v1/docs?cursor=%ff&limit=%00 HTTP/1.1",
        b"GET /v1/docs/" + b"%2e" * 3_000 + b" HTTP/1.1",
        b"PATCH /v1/stats HTTP/1.1",
        b"HEAD /v1/stats HTTP/1.1",
        b"GET /v1/stats HTTP/1.1\r\nAuthorization: Bearer \xff\xfe\xc3",
        b"GET /v1/stats HTTP/1.1\r\nCF-Ray: \xf0\x9f\x98\x80\r\nX-Request-Id: a\tb",
        b"POST /mcp HTTP/1.1\r\nOrigin: \xff\r\nMcp-Method: \xe9",
        b"DELETE /v1/docs/a HTTP/1.1\r\n" + b"\r\n".join(b"X-%d: y" % each for each in range(80)),
    ],
)
def test_hostile_bytes_get_a_4xx(deployment: Deployment, line: bytes) -> None:
    host, port = deployment.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(line + b"\r\nHost: rag\r\nContent-Length: 0\r\n\r\n")
        answer = HTTPResponse(connection, method=line.split()[0].decode())
        answer.begin()
        text = answer.read()
    assert 400 <= answer.status < 500, text[:300]
    assert b"Traceback" not in text


def test_queued_documents_are_ingested(client: httpx.Client) -> None:
    documents = [{"id": f"queued-{number}", "body": f"Queued text {number}."} for number in range(12)]
    answer = client.post("/v1/internal/enqueue", json={"documents": documents})
    assert answer.status_code == 202, answer.text
    ids = {document["id"] for document in documents}

    def indexed() -> set[str]:
        listed = client.get("/v1/docs").json()["documents"]
        return {each["id"] for each in listed if each["state"] == "indexed"}

    eventually(lambda: ids <= indexed())


@pytest.mark.parametrize("language", ["javascript", "python"])
def test_another_worker_calls_it_by_rpc(others: dict[str, str], client: httpx.Client, language: str) -> None:
    url = others[language]

    def call(method: str, *args: Any) -> Any:
        answer = httpx.post(f"{url}/{method}", json=args, timeout=60)
        assert answer.status_code == 200, answer.text
        assert answer.json()["plain"]
        return answer.json()["answer"]

    assert call("ingest", {"id": "rpc", "body": "By RPC."})["status"] == "indexed"
    many = call("ingestBatch", [{"id": "rpc", "body": "By RPC."}, {"id": ""}])
    assert [result["status"] for result in many["results"]] == ["skipped", "failed"]
    assert call("search", {"query": "tuple", "tags": ["types"]})["hits"][0]["id"] == "types/tuple"
    assert call("get", "rpc")["body"] == "By RPC."
    assert call("get", "nope")["error"]["status"] == 404
    assert call("search", {"query": "x", "topK": 51})["error"]["limit"] == 50
    assert call("stats")["documents"]["total"] >= 3
    assert call("delete", "rpc") == {"id": "rpc", "status": "deleted"}


def test_neither_text_nor_secrets_reach_the_log(deployment: Deployment, client: httpx.Client) -> None:
    client.post("/v1/search", json={"query": "immutable sequence"})
    logged = deployment.logs()
    assert "/v1/search" in logged
    for hidden in (SECRET, "immutable", "Queued text", "walrus operator"):
        assert hidden not in logged
