"""Bodies that are no good: refused before anything is built from them, each with its own problem."""

import json
from collections.abc import AsyncIterator

import pytest

from .conftest import Client

LIMIT = 4 * 1024 * 1024


@pytest.mark.parametrize("path", ["/v1/ingest", "/v1/ingest/batch", "/v1/search", "/v1/docs/delete"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{} {}",
        b'{"id": NaN}',
        b'{"id": Infinity}',
        b"\xff\xfe",
        b'{"id": "\xff"}',
        rb'{"id": "\ud800"}',
        b"[" * 100_000,
        b'{"a":' * 5_000,
        b"1" * 5_000,
        b"\x00",
    ],
)
async def test_what_is_not_json_is_a_400(client: Client, path: str, body: bytes) -> None:
    answer = await client.post(path, content=body)
    assert answer.status_code == 400
    assert answer.json()["type"].endswith(":invalid-json")
    assert len(answer.text) < 500


@pytest.mark.parametrize("body", [b"[]", b'"text"', b"1", b"true", b"null"])
async def test_json_that_is_no_object_is_a_422(client: Client, body: bytes) -> None:
    answer = await client.post("/v1/ingest", content=body)
    assert answer.status_code == 422
    assert "must be an object" in answer.json()["detail"]


async def test_a_body_over_the_limit_is_a_413_with_the_numbers(client: Client) -> None:
    answer = await client.post("/v1/ingest", content=b" " * (LIMIT + 1))
    assert answer.status_code == 413
    problem = answer.json()
    assert (problem["limit"], problem["actual"]) == (LIMIT, LIMIT + 1)


async def test_a_body_of_unknown_length_is_cut_off_at_the_limit(client: Client) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100 * LIMIT:
            sent += LIMIT // 4
            yield b" " * (LIMIT // 4)

    answer = await client.post("/v1/ingest", content=endless())
    assert answer.status_code == 413


@pytest.mark.parametrize("length", ["-1", "x", "9" * 5_000, "٣"])
async def test_a_content_length_that_lies_is_no_500(client: Client, length: str) -> None:
    headers = {b"Content-Length": length.encode(), b"Content-Type": b"application/json"}
    answer = await client.post("/v1/ingest", content=b"{}", headers=headers)
    assert 400 <= answer.status_code < 500


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x"]
)
async def test_another_content_type_is_a_415(client: Client, kind: str) -> None:
    answer = await client.post("/v1/ingest", content=b"{}", headers={"Content-Type": kind})
    assert answer.status_code == 415


@pytest.mark.parametrize(
    "kind", ["application/json", "application/json; charset=utf-8", "application/ld+json"]
)
async def test_json_may_come_under_its_other_names(client: Client, kind: str) -> None:
    body = json.dumps({"id": "a", "body": "text"})
    answer = await client.post("/v1/ingest", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 200


async def test_a_path_that_is_no_utf8_is_a_400(client: Client) -> None:
    assert (await client.get("/v1/docs/%ff")).status_code == 400
