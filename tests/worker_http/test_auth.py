"""Who gets in: every data route, every kind of token, and what keeps the API closed."""

from types import SimpleNamespace

import pytest

from .conftest import BEARER, Client, connect, log_lines
from .engines import SECRET
from .loading import rendered

ROUTES = [
    ("POST", "/v1/ingest"),
    ("POST", "/v1/ingest/batch"),
    ("POST", "/v1/search"),
    ("GET", "/v1/docs"),
    ("GET", "/v1/docs/a"),
    ("DELETE", "/v1/docs/a"),
    ("POST", "/v1/docs/delete"),
    ("GET", "/v1/stats"),
    ("GET", "/v1/space"),
    ("GET", "/openapi.json"),
    ("GET", "/docs"),
]
OTHER = "another-secret-of-the-tests-0123456789ab"


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "authorization",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic " + SECRET.encode(),
        b"Bearer " + SECRET[:-1].encode(),
        b"Bearer " + SECRET.encode() + b"x",
        b"Bearer " + SECRET.encode() + b" x",
        "Bearer ключ".encode(),
        b"Bearer \xff\xfe",
        b"Bearer pi_0123456789012345678901234567890123456789012",
    ],
)
async def test_no_route_answers_without_a_valid_token(
    stranger: Client, method: str, path: str, authorization: bytes | None
) -> None:
    headers = {} if authorization is None else {b"Authorization": authorization}
    answer = await stranger.request(method, path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith('Bearer realm="pydocs"')
    assert answer.json()["type"].endswith(":unauthorized")


async def test_two_authorization_headers_are_none(stranger: Client) -> None:
    headers = [("Authorization", f"Bearer {SECRET}"), ("Authorization", "Bearer x")]
    assert (await stranger.get("/v1/stats", headers=headers)).status_code == 401


async def test_the_token_is_asked_for_before_the_body_is_read(stranger: Client) -> None:
    answer = await stranger.post("/v1/ingest", content=b"\xff" * 10_000_000)
    assert answer.status_code == 401


async def test_the_scheme_is_not_case_sensitive(stranger: Client) -> None:
    answer = await stranger.get("/v1/docs", headers={"Authorization": f"bearer {SECRET}"})
    assert answer.status_code == 200


async def test_both_secrets_of_a_rotation_are_taken(env: SimpleNamespace) -> None:
    env.INTERNAL_API_SECRET, env.INTERNAL_API_SECRET_PREVIOUS = OTHER, SECRET
    async with connect(rendered(), env) as client:
        for secret in (OTHER, SECRET):
            answer = await client.get("/v1/docs", headers={"Authorization": f"Bearer {secret}"})
            assert answer.status_code == 200


@pytest.mark.parametrize("secret", [None, "", "x", "x" * 31, 12345])
@pytest.mark.parametrize("previous", [None, "", SECRET])
async def test_without_a_good_secret_the_api_is_closed_and_the_log_says_why(
    env: SimpleNamespace, secret: object, previous: object, capsys: pytest.CaptureFixture[str]
) -> None:
    env.INTERNAL_API_SECRET, env.INTERNAL_API_SECRET_PREVIOUS = secret, previous
    async with connect(rendered(), env) as client:
        for token in (secret, previous, SECRET, ""):
            answer = await client.get("/v1/docs", headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 503
            assert answer.json()["type"].endswith(":closed")
        assert (await client.get("/health")).status_code == 200
    reasons = [line["message"] for line in log_lines(capsys.readouterr().err)]
    assert any("INTERNAL_API_SECRET" in reason for reason in reasons)


async def test_a_missing_binding_for_the_secret_closes_the_api(env: SimpleNamespace) -> None:
    del env.INTERNAL_API_SECRET
    async with connect(rendered(), env, **BEARER) as client:
        assert (await client.get("/v1/stats")).status_code == 503


async def test_in_service_mode_only_health_is_served(env: SimpleNamespace) -> None:
    async with connect(rendered(auth={"mode": "service"}), env, **BEARER) as client:
        for method, path in ROUTES:
            assert (await client.request(method, path)).status_code == 404
        assert (await client.get("/health")).status_code == 200


async def test_no_token_reaches_the_log(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    await client.get("/v1/docs")
    await client.get("/v1/docs", headers={"Authorization": f"Bearer {OTHER}"})
    captured = capsys.readouterr()
    assert SECRET not in captured.out + captured.err
    assert OTHER not in captured.out + captured.err
