"""The official Python clients of both major versions, unmodified, at the deployed Worker."""

import json
from typing import Any

import pytest

from .deployed import Deployment
from .installed import HERE, python_with, run

CLIENTS = HERE / "clients"
RUNS = [
    ("client1.py", "mcp1.lock", [], "2025-11-25"),
    ("client2.py", "mcp2.lock", ["legacy"], "2025-11-25"),
    ("client2.py", "mcp2.lock", ["auto"], "2026-07-28"),
    ("client2.py", "mcp2.lock", ["2026-07-28"], "2026-07-28"),
]


@pytest.mark.parametrize(("script", "lock", "arguments", "version"), RUNS)
def test_an_official_client_uses_every_tool(
    deployment: Deployment, script: str, lock: str, arguments: list[str], version: str
) -> None:
    key = deployment.key("read", "write")
    python = python_with(CLIENTS / lock)
    answer: dict[str, Any] = json.loads(
        run(python, CLIENTS / script, f"{deployment.url}/mcp", key, *arguments)
    )
    assert answer["version"] == version
    assert answer["session"] is None
    assert answer["tools"] == [
        "delete_doc",
        "get_doc",
        "get_stats",
        "ingest_doc",
        "list_docs",
        "search_docs",
    ]
    doc_id = answer["stored"]["id"]
    assert answer["stored"]["status"] == "indexed"
    (hit,) = answer["found"]["hits"]
    assert hit["body"] == "The official client stored this."
    assert answer["missing"] is True
    assert doc_id in [each["id"] for each in answer["listed"]["documents"]]
    assert answer["deleted"] == {"id": doc_id, "status": "deleted"}


def test_a_reading_client_is_offered_reading_tools_only(deployment: Deployment) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    with deployment.client(deployment.key("read")) as client:
        tools = client.post("/mcp", json=body).json()["result"]["tools"]
    assert {tool["name"] for tool in tools} == {"search_docs", "get_doc", "list_docs", "get_stats"}
