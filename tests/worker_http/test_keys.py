"""API keys over HTTP: made, used within their scopes, expired, revoked, and never shown twice."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from .conftest import BEARER, Client, connect
from .engines import Limiter
from .loading import rendered

WRITES = [
    ("POST", "/v1/ingest"),
    ("POST", "/v1/ingest/batch"),
    ("DELETE", "/v1/docs/a"),
    ("POST", "/v1/docs/delete"),
]
READS = [("POST", "/v1/search"), ("GET", "/v1/docs"), ("GET", "/v1/docs/a"), ("GET", "/v1/stats")]
BODIES: dict[str, Any] = {
    "/v1/ingest": {"id": "a", "body": "text"},
    "/v1/ingest/batch": {"documents": [{"id": "a", "body": "text"}]},
    "/v1/docs/delete": {"ids": ["a"]},
    "/v1/search": {"query": "text"},
}


async def mint(client: Client, **request: Any) -> dict[str, Any]:
    answer = await client.post("/v1/internal/keys", json={"name": "test", **request})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def call(client: Client, method: str, path: str, key: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return await client.request(method, path, json=BODIES.get(path), headers=headers)


@pytest.mark.parametrize("scopes", [["read"], ["write"], ["read", "write"]])
async def test_a_key_opens_what_its_scopes_say(client: Client, scopes: list[str]) -> None:
    await client.post("/v1/ingest", json={"id": "a", "body": "text"})
    key = (await mint(client, scopes=scopes))["key"]
    for scope, routes in (("read", READS), ("write", WRITES)):
        for method, path in routes:
            answer = await call(client, method, path, key)
            if scope in scopes:
                assert answer.status_code in (200, 404), answer.text
            else:
                assert answer.status_code == 403
                assert answer.json()["scope"] == scope
                assert f'scope="{scope}"' in answer.headers["www-authenticate"]


async def test_a_key_reads_unless_more_is_asked_for(client: Client) -> None:
    assert (await mint(client))["scopes"] == ["read"]


async def test_a_key_is_shown_once_and_only_its_hash_is_stored(client: Client, env: SimpleNamespace) -> None:
    made = await mint(client, scopes=["read", "write"])
    assert made["key"].startswith("pi_")
    listed = await client.get("/v1/internal/keys")
    assert made["key"] not in listed.text
    assert [(key["id"], key["name"]) for key in listed.json()["keys"]] == [(made["id"], "test")]
    rows = (await env.DB.prepare("select * from api_keys").all())["results"]
    assert made["key"].removeprefix("pi_") not in str(rows)


async def test_a_revoked_key_is_refused_at_once_and_stays_in_the_list(client: Client) -> None:
    made = await mint(client)
    revoked = (await client.delete(f"/v1/internal/keys/{made['id']}")).json()
    assert revoked["revokedAt"]
    answer = await call(client, "GET", "/v1/docs", made["key"])
    assert answer.status_code == 401
    assert "revoked" in answer.json()["detail"]
    again = (await client.delete(f"/v1/internal/keys/{made['id']}")).json()
    assert again["revokedAt"] == revoked["revokedAt"]


async def test_a_key_ends_when_it_expires(client: Client, env: SimpleNamespace) -> None:
    made = await mint(client, expiresAt=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    assert (await call(client, "GET", "/v1/docs", made["key"])).status_code == 200
    await env.DB.prepare("update api_keys set expires_at = 1").all()
    answer = await call(client, "GET", "/v1/docs", made["key"])
    assert answer.status_code == 401
    assert "expired" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["internal"]}, "scopes[0]"),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, "expiresAt"),
        ({"expiresAt": "2090-01-01T00:00:00"}, "expiresAt"),
    ],
)
async def test_a_bad_request_for_a_key_is_refused(
    client: Client, request_: dict[str, Any], field: str
) -> None:
    answer = await client.post("/v1/internal/keys", json={"name": "test", **request_})
    assert answer.status_code == 422
    assert answer.json()["field"] == field


async def test_revoking_an_unknown_key_is_a_404(client: Client) -> None:
    assert (await client.delete("/v1/internal/keys/key_nope")).status_code == 404


async def test_no_key_opens_the_operators_routes(client: Client) -> None:
    key = (await mint(client, scopes=["read", "write"]))["key"]
    for method, path in (
        ("GET", "/v1/internal/keys"),
        ("POST", "/v1/internal/keys"),
        ("DELETE", "/v1/internal/keys/x"),
        ("POST", "/v1/internal/enqueue"),
    ):
        answer = await call(client, method, path, key)
        assert answer.status_code == 403
        assert answer.json()["scope"] == "internal"


async def test_in_secret_mode_there_are_no_keys(client: Client, env: SimpleNamespace) -> None:
    key = (await mint(client))["key"]
    async with connect(rendered(auth={"mode": "secret"}), env, **BEARER) as strict:
        assert (await call(strict, "GET", "/v1/docs", key)).status_code == 401
        assert (await strict.get("/v1/internal/keys")).status_code == 404
        assert (await strict.get("/v1/docs")).status_code == 200


async def test_a_key_costs_one_read_and_the_secret_none(client: Client) -> None:
    key = (await mint(client))["key"]
    await client.post("/v1/ingest", json={"id": "a", "body": "text"})
    await client.post("/v1/search", json={"query": "text"})
    with_secret = await client.post("/v1/search", json={"query": "text"})
    with_key = await call(client, "POST", "/v1/search", key)
    assert 'd1;dur=0.0;desc="0 calls"' in with_secret.headers["server-timing"]
    assert 'desc="1 call"' in with_key.headers["server-timing"].rpartition("d1;")[2]


async def test_guessing_is_limited_before_keys_are_looked_up(env: SimpleNamespace) -> None:
    env.RATE_LIMIT = Limiter(3)
    env.DB = SimpleNamespace()  # A look-up would fail with a 500.
    async with connect(rendered(rateLimit={"limit": 3, "period": 10}), env) as client:
        wrong = {"Authorization": "Bearer pi_nope", "cf-connecting-ip": "192.0.2.1"}
        statuses = [(await client.get("/v1/docs", headers=wrong)).status_code for _ in range(5)]
        assert statuses == [401, 401, 401, 429, 429]
        answer = await client.get("/v1/docs", headers=wrong)
        assert answer.headers["retry-after"] == "10"
        elsewhere = {**wrong, "cf-connecting-ip": "192.0.2.2"}
        assert (await client.get("/v1/docs", headers=elsewhere)).status_code == 401


async def test_each_key_has_its_own_limit_and_the_secret_none(env: SimpleNamespace) -> None:
    async with connect(rendered(rateLimit={"limit": 2, "period": 60}), env, **BEARER) as client:
        first, second = (await mint(client))["key"], (await mint(client))["key"]
        env.RATE_LIMIT = limiter = Limiter(2)
        for key in (first, second):
            limiter.left.pop("client:", None)
            statuses = [(await call(client, "GET", "/v1/docs", key)).status_code for _ in range(2)]
            assert statuses == [200, 200]
            limiter.left.pop("client:", None)
            assert (await call(client, "GET", "/v1/docs", key)).status_code == 429
        assert [(await client.get("/v1/docs")).status_code for _ in range(5)] == [200] * 5
