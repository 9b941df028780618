"""The example hosts with the service in them, in workerd: who may call, the queue, and the host as before."""

from collections.abc import Iterator

import pytest

from tests.graft.grafted import SECRET, Grafted, Town
from tests.local_api.server import wait_for
from tests.worker_http.deployed import local_cloudflare

# One process for the hosts of all tests here.
pytestmark = pytest.mark.xdist_group("graft")

BEARER = {"authorization": f"Bearer {SECRET}"}
DOCUMENT = {"id": "teapot", "title": "Teapot", "body": "A pot with a spout, in which tea is made."}


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    server = local_cloudflare(tmp_path_factory.mktemp("cloudflare"))
    try:
        yield Town(server, tmp_path_factory.mktemp("hosts"))
    finally:
        server.stop()


@pytest.fixture(scope="module")
def hosts(town: Town) -> dict[str, Grafted]:
    """By who may call."""
    return {
        "host": town.graft("fastapi", "shop", "host"),
        "keys": town.graft("fastapi", "shop-keys", "keys"),
        "secret": town.graft("plain", "notes", "secret", consumes=True),
    }


@pytest.fixture
def shop(hosts: dict[str, Grafted]) -> Grafted:
    return hosts["host"]


@pytest.fixture
def keyed(hosts: dict[str, Grafted]) -> Grafted:
    return hosts["keys"]


@pytest.fixture
def notes(hosts: dict[str, Grafted]) -> Grafted:
    return hosts["secret"]


def test_the_hosts_own_callers_have_the_rights_that_the_host_gives(shop: Grafted) -> None:
    assert shop.call("POST", "/rag/v1/ingest", DOCUMENT, x_session="clerk-7").status_code == 200
    assert shop.call("POST", "/rag/v1/ingest", DOCUMENT, x_session="customer-12").status_code == 403
    found = shop.call("POST", "/rag/v1/search", {"query": "where is tea made?"}, x_session="customer-12")
    assert [hit["id"] for hit in found.json()["hits"]] == ["teapot"]


def test_whom_the_host_does_not_know_is_nobody_with_whatever_token(shop: Grafted) -> None:
    for headers in ({}, {"x_session": "nobody"}, BEARER):
        answer = shop.call("POST", "/rag/v1/search", {"query": "tea"}, **headers)
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
    assert shop.call("GET", "/rag/v1/internal/keys", x_session="clerk-7").status_code in (403, 404)


def test_mcp_is_behind_the_hosts_auth_too(shop: Grafted) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    accept = "application/json, text/event-stream"
    assert shop.call("POST", "/rag/mcp", hello, accept=accept).status_code == 401
    welcome = shop.call("POST", "/rag/mcp", hello, accept=accept, x_session="customer-12")
    assert welcome.status_code == 200, welcome.text


def test_keys_are_made_with_the_secret_and_have_their_scopes(keyed: Grafted) -> None:
    made = keyed.call("POST", "/rag/v1/internal/keys", {"name": "reader", "scopes": ["read"]}, **BEARER)
    reader = {"authorization": f"Bearer {made.json()['key']}"}
    assert keyed.call("POST", "/rag/v1/search", {"query": "tea"}, **reader).status_code == 200
    assert keyed.call("POST", "/rag/v1/ingest", DOCUMENT, **reader).status_code == 403
    assert keyed.call("POST", "/rag/v1/search", {"query": "tea"}).status_code == 401
    assert keyed.call("POST", "/rag/v1/search", {"query": "tea"}, x_session="clerk-7").status_code == 401


def test_only_the_secret_opens_a_service_with_secret_auth(notes: Grafted) -> None:
    assert notes.call("GET", "/rag/v1/stats", **BEARER).status_code == 200
    assert notes.call("GET", "/rag/v1/stats").status_code == 401
    assert notes.call("GET", "/rag/v1/stats", authorization=f"Bearer pi_{'x' * 40}").status_code == 401


def test_documents_arrive_through_the_hosts_queue_handler(notes: Grafted) -> None:
    queued = {"documents": [{"id": "kettle", "title": "Kettle", "body": "It boils water."}]}
    assert notes.call("POST", "/rag/v1/internal/enqueue", queued, **BEARER).status_code == 202

    def there() -> bool:
        return notes.call("GET", "/rag/v1/docs/kettle", **BEARER).status_code == 200

    wait_for(there, lambda: "the queued document was not ingested")


def test_the_hosts_own_queue_still_reaches_its_own_handler(town: Town, notes: Grafted) -> None:
    assert notes.call("POST", "/mail", {"to": "ada"}).status_code == 202

    def logged() -> bool:
        return any("mail to ada" in path.read_text() for path in town.server.home.rglob("*.log"))

    wait_for(logged, lambda: "the mail did not arrive")


def test_the_hosts_own_routes_and_database_are_as_before(shop: Grafted, notes: Grafted) -> None:
    assert shop.call("GET", "/").json() == {"shop": "open"}
    assert shop.call("GET", "/ragged").status_code == 404
    assert "documents" not in notes.call("GET", "/").text.split()


def test_the_description_says_where_the_service_is(keyed: Grafted) -> None:
    described = keyed.call("GET", "/rag/openapi.json", **BEARER).json()
    assert described["servers"] == [{"url": "/rag"}]
    assert "/v1/search" in described["paths"]


def test_problems_of_a_mounted_service_are_as_without(keyed: Grafted, notes: Grafted) -> None:
    for worker in (keyed, notes):
        wrong = worker.call("DELETE", "/rag/v1/docs", **BEARER)
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
        assert worker.call("GET", "/rag/health").status_code == 200
