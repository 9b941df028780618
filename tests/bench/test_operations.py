import re
import secrets
from collections.abc import Iterator

import httpx
import pytest

from bench.operations import Calls, count, counting, operations
from tests.deployed import Deployed


@pytest.fixture(scope="module")
def client(deployed: Deployed) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {deployed.key}"}
    with (
        counting(deployed.cloudflare),
        httpx.Client(base_url=deployed.url, headers=headers, timeout=60) as client,
    ):
        client.get("/v1/stats").raise_for_status()
        yield client


def test_each_operation_makes_the_calls_that_the_design_allows_and_no_more(
    deployed: Deployed, client: httpx.Client
) -> None:
    counted = {
        each.name: count(deployed.cloudflare, client, each) for each in operations(secrets.token_hex(4))
    }
    assert counted == {each.name: each.allowed for each in operations("")}


def test_server_timing_tells_what_the_platform_counted(client: httpx.Client) -> None:
    answer = client.post("/v1/search", json={"query": "a text", "tags": ["bench"]})
    reported = dict(re.findall(r'(\w+);dur=[\d.]+;desc="(\d+) call', answer.headers["server-timing"]))
    allowed = {each.name: each.allowed for each in operations("")}["search, tag filter, 2 tag slots"]
    assert Calls(*(int(reported[name]) for name in ("d1", "embed", "vectorize"))) == allowed
