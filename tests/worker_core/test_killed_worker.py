"""The rendered Worker in workerd, killed between two real calls."""

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.deployed import Deployed

BODY = "A text that is written while its writer dies."


@pytest.fixture
def http(deployed: Deployed) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {deployed.key}"}
    with httpx.Client(base_url=deployed.url, headers=headers, timeout=60) as client:
        yield client


@pytest.fixture
def fault(deployed: Deployed) -> Iterator[Callable[..., None]]:
    def switch_on(**fault: Any) -> None:
        deployed.cloudflare.call("POST", "/__local/faults", fault)

    yield switch_on
    deployed.cloudflare.call("DELETE", "/__local/faults")


def _document(doc_id: str, **changes: Any) -> dict[str, Any]:
    metadata = {"chapter": "types", "words": 9}
    return {"id": doc_id, "body": BODY, "tags": ["prose"], "metadata": metadata} | changes


def _ingest(http: httpx.Client, document: dict[str, Any]) -> str:
    response = http.post("/v1/ingest", json=document)
    assert response.status_code == 200, response.text
    status: str = response.json()["status"]
    return status


def _killed(http: httpx.Client, document: dict[str, Any]) -> None:
    try:
        response = http.post("/v1/ingest", json=document)
    except httpx.TransportError:
        pass
    else:
        assert response.status_code >= 500, response.text
    _until(lambda: _answers(http))


def _answers(http: httpx.Client) -> bool:
    try:
        return http.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def _until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing came of it"
        time.sleep(0.2)


def test_killed_between_the_write_and_the_commit_the_next_ingest_is_not_skipped(
    http: httpx.Client, fault: Callable[..., None]
) -> None:
    doc_id = f"killed/{uuid4().hex[:8]}"
    fault(target="vectorize", op="upsert", action="kill-after")
    _killed(http, _document(doc_id))
    assert http.get(f"/v1/docs/{doc_id}").json()["state"] == "indexing"
    assert _ingest(http, _document(doc_id)) == "indexed"
    assert _ingest(http, _document(doc_id)) == "skipped"
    _until(lambda: http.get(f"/v1/docs/{doc_id}").json()["state"] == "indexed")
    assert http.get(f"/v1/docs/{doc_id}").json()["body"] == BODY


def test_killed_over_an_older_version_both_stores_end_with_the_last_content(
    http: httpx.Client, fault: Callable[..., None]
) -> None:
    doc_id = f"killed/{uuid4().hex[:8]}"
    assert _ingest(http, _document(doc_id, body="The first content.")) == "indexed"
    fault(target="vectorize", op="upsert", action="kill-after")
    _killed(http, _document(doc_id))
    assert _ingest(http, _document(doc_id, body="The first content.")) == "indexed"
    _until(lambda: http.get(f"/v1/docs/{doc_id}").json()["body"] == "The first content.")


def test_an_unchanged_document_is_skipped_while_ai_fails(
    http: httpx.Client, fault: Callable[..., None]
) -> None:
    doc_id = f"killed/{uuid4().hex[:8]}"
    assert _ingest(http, _document(doc_id)) == "indexed"
    fault(target="ai", action="error", calls=100)
    assert (
        _ingest(http, _document(doc_id, tags=["prose", "prose"], metadata={"words": 9.0, "chapter": "types"}))
        == "skipped"
    )
    refused = http.post("/v1/ingest", json=_document(doc_id, body="Something new."))
    assert (refused.status_code, refused.json()["status"]) == (503, 503)
