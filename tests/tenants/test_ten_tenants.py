"""Ten tenants from their first stack to their last trace, on an account whose call budget is enforced.

One story, in order: each test begins where the one before it ended.
"""

import itertools
import json
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.provider.support import LocalCloudflare
from tests.tenants.town import Town

pytestmark = pytest.mark.xdist_group("ten-tenants")

NAMES = [f"t{number:02}" for number in range(10)]
UNLUCKY = "t05"
TAKEN = f"rag-{UNLUCKY}-768-g1"
DEFAULTS: dict[str, Any] = {
    "name": "rag",
    "tags": {"maxPerDocument": 1},
    "mcp": {"internalSecret": True},
    "docsPublic": True,
    "allowDataLoss": True,
}
# Two configs among ten tenants.
TENANTS: dict[str, Any] = {name: {} for name in NAMES} | {"t01": {"config": {"search": {"defaultTopK": 5}}}}
# One of each kind: tried with every tenant's credentials on every other one's Worker.
INTERNAL = "GET /v1/internal/keys"
SAMPLE = ("GET /v1/docs", "POST /mcp", INTERNAL)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("ten-tenants")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    cloudflare = LocalCloudflare.start(folder / "cloudflare", port)
    yield Town.found(cloudflare, folder / "home")
    cloudflare.stop()


@pytest.fixture(scope="module")
def keys(town: Town, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return town.keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def doors(town: Town, keys: dict[str, str]) -> Iterator[dict[str, "Door"]]:
    urls = {each["tenant"]: each["url"] for each in town.tenants("status")["tenants"]}
    # One client: each new one reads all certificates of the machine. workerd closes connections as it likes.
    limits = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(timeout=60, trust_env=False, limits=limits) as client:
        yield {name: Door(client, urls[name], keys[name]) for name in NAMES}


def test_one_command_stamps_all_but_the_one_that_fails(town: Town) -> None:
    town.write(DEFAULTS, TENANTS)
    town.cloudflare.index(TAKEN)  # somebody else's index of this very name
    report = town.tenants("up", "--parallel", "2", code=1)
    assert town.status_of(report) == dict.fromkeys(NAMES, "created") | {UNLUCKY: "failed"}
    (failure,) = [each["error"] for each in report["tenants"] if each["error"]]
    assert TAKEN in failure
    assert report["rendered"] == 2
    names = town.holds()
    assert names["workers"] == [f"rag-{name}-worker" for name in NAMES if name != UNLUCKY]
    assert names["indexes"] == [f"rag-{name}-768-g1" for name in NAMES]


def test_a_resumed_run_that_is_killed_is_resumed_again(town: Town) -> None:
    town.cloudflare.client.vectorize.indexes.delete(TAKEN, account_id=town.cloudflare.account)
    # Its database may be there since the first run; its Worker is not.
    town.kill_when(lambda: f"rag-{UNLUCKY}-worker" in town.workers(), "up")
    states = {each["tenant"]: each["state"] for each in town.tenants("status")["tenants"]}
    assert states == dict.fromkeys(NAMES, "deployed") | {UNLUCKY: states[UNLUCKY]}
    assert states[UNLUCKY] in ("up interrupted", "in progress")
    report = town.tenants("up")
    assert town.status_of(report) == dict.fromkeys(NAMES, "done before") | {UNLUCKY: "changed"}
    assert len(town.holds()["workers"]) == 10


def test_no_tenants_keys_open_anything_of_anothers(doors: dict[str, "Door"]) -> None:
    for door in doors.values():
        # Without any key, nothing of the data can be seen.
        assert {"POST /v1/search", *SAMPLE} <= door.closed
        assert door.refusals(door.secret, SAMPLE) == set()
        assert door.refusals(door.key, SAMPLE) == {INTERNAL}
    for mine, other in itertools.permutations(doors.values(), 2):
        for credential in (mine.secret, mine.key):
            assert other.refusals(credential, SAMPLE) == set(SAMPLE)


def test_nor_by_any_other_route(doors: dict[str, "Door"]) -> None:
    mine, other = doors["t00"], doors["t01"]
    assert mine.refusals(mine.secret) == set()
    assert mine.refusals(mine.key) == mine.internal <= mine.closed
    for credential in (mine.secret, mine.key):
        assert other.refusals(credential) == other.closed


def test_what_one_tenant_stores_is_nowhere_else(town: Town, doors: dict[str, "Door"]) -> None:
    for name, door in doors.items():
        door.call("POST", "/v1/ingest", door.secret, {"id": "note", "body": f"A note of {name}."})
    for name, door in doors.items():
        found = door.call("GET", "/v1/docs/note", door.secret).json()
        assert found["body"] == f"A note of {name}."
        assert door.call("GET", "/v1/stats", door.secret).json()["documents"]["total"] == 1
    indexes = town.cloudflare.client.vectorize.indexes
    for name in NAMES:
        about = indexes.info(f"rag-{name}-768-g1", account_id=town.cloudflare.account)
        assert about
        assert about.vector_count == 1


def test_every_tenant_has_a_secret_of_its_own_and_none_is_on_disk_in_clear(
    town: Town, keys: dict[str, str]
) -> None:
    assert sorted(keys) == NAMES
    assert len(set(keys.values())) == len(NAMES)
    assert all(len(key) == 64 for key in keys.values())
    wanted = [value.encode() for value in (*keys.values(), town.cloudflare.token)]
    files = [path for path in town.home.rglob("*") if path.is_file() and "cache" not in path.parts]
    assert len([path for path in files if path.match("Pulumi.t*.yaml")]) == len(NAMES)
    for path in files:
        content = path.read_bytes()
        assert not [each for each in wanted if each in content], path


def test_a_change_that_the_canary_refuses_reaches_nobody(town: Town) -> None:
    town.write({**DEFAULTS, "embedding": {"model": "@cf/baai/bge-m3"}}, TENANTS)
    report = town.tenants("up", "--canary", "1", code=1)
    assert town.status_of(report) == dict.fromkeys(NAMES, "not started") | {"t00": "failed"}
    assert "replacing" in report["tenants"][0]["error"]


def test_a_changed_config_goes_to_the_canaries_and_then_to_all(town: Town, keys: dict[str, str]) -> None:
    # Another machine, which has the file and the backend and nothing else.
    for path in town.home.glob("tenants/*/*t07*"):
        path.unlink()
    town.write({**DEFAULTS, "queue": {"maxRetries": 7}}, TENANTS)
    planned = town.tenants("plan", "--only", "t03")
    assert planned["tenants"][0]["changes"]["update"] == 1
    report = town.tenants("up", "--canary", "2")
    assert set(town.status_of(report).values()) == {"changed"}
    assert {retries_of(town, name) for name in NAMES} == {7}
    assert town.tenants("run", "--only", "t07", "--", "sh", "-c", f'test "$CFRAG_KEY" = {keys["t07"]}')["ok"]


def test_a_rotated_secret_is_handed_over_and_its_neighbours_keep_theirs(
    town: Town, doors: dict[str, "Door"], tmp_path: Path
) -> None:
    mine, other = doors["t01"], doors["t02"]
    assert town.status_of(town.tenants("rotate-secret", "--only", "t01")) == {"t01": "changed"}
    new = town.keys(tmp_path / "new", "--only", "t01")["t01"]
    assert new != mine.secret
    assert [mine.refusals(each, SAMPLE) for each in (mine.secret, new)] == [set(), set()]
    assert town.status_of(town.tenants("rotate-secret", "--finish", "--only", "t01")) == {"t01": "changed"}
    assert [mine.refusals(each, SAMPLE) for each in (mine.secret, new)] == [set(SAMPLE), set()]
    assert mine.refusals(mine.key, SAMPLE) == {INTERNAL}  # API keys are nothing to it
    assert [other.refusals(each, SAMPLE) for each in (other.secret, new)] == [set(), set(SAMPLE)]


def test_destroyed_tenants_leave_nothing(town: Town) -> None:
    report = town.tenants("destroy", "--yes")
    assert set(town.status_of(report).values()) == {"destroyed"}
    assert town.holds() == {"indexes": [], "databases": [], "queues": [], "workers": []}
    assert {each["state"] for each in town.tenants("status")["tenants"]} == {"no stack"}
    assert set(town.status_of(town.tenants("destroy", "--yes", "--only", "t00")).values()) == {"absent"}


def test_all_of_it_stayed_within_the_accounts_budget(town: Town) -> None:
    calls = town.cloudflare.control("GET", "/__local/status")["apiCalls"]
    assert calls["refused"] == 0
    assert calls["made"] > 300


def retries_of(town: Town, name: str) -> Any:
    client, account = town.cloudflare.client, town.cloudflare.account
    (queue,) = [q for q in client.queues.list(account_id=account) if q.queue_name == f"rag-{name}-ingest"]
    assert queue.queue_id
    (consumer,) = client.queues.consumers.list(queue.queue_id, account_id=account)
    return json.loads(consumer.model_dump_json())["settings"]["max_retries"]


class Door:
    """Every route of one tenant's Worker, from outside."""

    def __init__(self, client: httpx.Client, url: str, secret: str) -> None:
        self._client = client
        self.url = url
        self.secret = secret
        minted = self.call("POST", "/v1/internal/keys", secret, {"name": "k", "scopes": ["read", "write"]})
        self.key: str = minted.json()["key"]
        paths = self.call("GET", "/openapi.json", None).json()["paths"]
        self.routes = {
            f"{method.upper()} {path.replace('{id}', 'nothing')}"
            for path, of in paths.items()
            for method in of
        } | {"POST /mcp"}
        self.internal = {route for route in self.routes if "/internal/" in route}
        self.closed = self.refusals(None)

    def refusals(self, credential: str | None, routes: Iterable[str] = ()) -> set[str]:
        """The routes, of all or of these, that don't let this credential in."""
        return {route for route in routes or self.routes if self.status(route, credential) in (401, 403)}

    def status(self, route: str, credential: str | None) -> int:
        method, path = route.split(" ")
        return self.call(method, path, credential).status_code

    def call(self, method: str, path: str, credential: str | None, body: Any = None) -> httpx.Response:
        headers = {"Accept": "application/json, text/event-stream"}
        if credential:
            headers["Authorization"] = f"Bearer {credential}"
        if path == "/mcp" and body is None:
            body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        return self._client.request(method, self.url + path, json=body, headers=headers)
