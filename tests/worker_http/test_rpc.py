"""RPC: the same objects as over HTTP, problems as values, never an exception."""

from types import SimpleNamespace
from typing import Any

import pytest

from .loading import rendered


@pytest.fixture
def bindings(env: SimpleNamespace) -> Any:
    return rendered().bindings.Bindings.from_env(env)


async def test_every_method_answers_with_plain_values(bindings: Any) -> None:
    rpc = rendered().rpc
    document = {"id": "a", "body": "Tuples are immutable.", "metadata": {"words": 3}}
    assert (await rpc.ingest(bindings, document))["status"] == "indexed"
    many = await rpc.ingest_batch(bindings, [document, {"id": "b"}])
    assert [result["status"] for result in many["results"]] == ["skipped", "failed"]
    assert (await rpc.ingest_batch(bindings, {"documents": [document]}))["results"][0]["status"] == "skipped"
    (hit,) = (await rpc.search(bindings, {"query": "tuple", "topK": 3}))["hits"]
    assert hit["body"] == "Tuples are immutable."
    got = await rpc.get(bindings, "a")
    assert isinstance(got["indexedAt"], str)
    assert (await rpc.stats(bindings))["documents"]["total"] == 1
    assert await rpc.delete(bindings, "a") == {"id": "a", "status": "deleted"}


@pytest.mark.parametrize("value", [None, 1, "", [], {"id": 1}, {"unknown": {}}, b"bytes", "x" * 100])
@pytest.mark.parametrize("method", ["ingest", "ingest_batch", "search", "get", "delete"])
async def test_bad_arguments_are_problems(bindings: Any, method: str, value: object) -> None:
    answer = await getattr(rendered().rpc, method)(bindings, value)
    assert answer["error"]["status"] == 422
    assert answer["error"]["requestId"]


async def test_an_unexpected_error_is_a_problem_too(
    env: SimpleNamespace, bindings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    env.DB = None
    broken = rendered().bindings.Bindings.from_env(env)
    answer = await rendered().rpc.get(broken, "a")
    assert answer["error"]["status"] == 500
    assert "NoneType" not in str(answer)
    assert "AttributeError" in capsys.readouterr().err
