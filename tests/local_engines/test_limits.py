"""One table of limits, checked through the official SDK and through a Worker's bindings."""

from typing import Any, NamedTuple

import pytest

from local.envelope import ApiError

DIMS = 3
BGE = "@cf/baai/bge-base-en-v1.5"
QWEN = "@cf/qwen/qwen3-embedding-0.6b"
M3 = "@cf/baai/bge-m3"
# One token per byte in the tokenizer's alphabet of last resort.
RARE = "\U0001f9ff"


def vector(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"id": name, "values": [1.0, 0.0, 0.0]} | more


class Case(NamedTuple):
    """A call that the platform refuses, and one just within the limit that it accepts."""

    call: str
    refused: tuple[Any, ...]
    accepted: tuple[Any, ...]
    code: int
    message: str
    options: tuple[dict[str, Any], dict[str, Any]] = ({}, {})


def sized_metadata(size: int) -> dict[str, Any]:
    return {"rawBody": "x" * (size - len('{"rawBody":""}'))}


def sized_message(size: int) -> dict[str, Any]:
    # 100 bytes of overhead count, and so do the quotes of the JSON string.
    return {"body": "x" * (size - 102), "contentType": "json"}


def sized_filter(size: int) -> dict[str, Any]:
    return {"filter": {"lang": "x" * (size - len('{"lang":""}'))}}


ids = [f"id-{number}" for number in range(101)]
CASES = {
    "id of 65 bytes": Case(
        "upsert",
        ("docs", [vector("é" * 32 + "x")]),
        ("docs", [vector("é" * 32)]),
        40008,
        "id too long; max is 64 bytes, got 65 bytes",
    ),
    "namespace of 65 bytes": Case(
        "upsert",
        ("docs", [vector(namespace="n" * 65)]),
        ("docs", [vector(namespace="n" * 64)]),
        40008,
        "namespace too long; max is 64 bytes, got 65 bytes",
    ),
    "metadata of 10,241 bytes": Case(
        "upsert",
        ("docs", [vector(metadata=sized_metadata(10_241))]),
        ("docs", [vector(metadata=sized_metadata(10_240))]),
        40016,
        "max is 10240 bytes, got 10241 bytes",
    ),
    "metadata key with a dot": Case(
        "upsert",
        ("docs", [vector(metadata={"a.b": 1})]),
        ("docs", [vector(metadata={"a": {"b": 1}})]),
        40023,
        "'a.b'",
    ),
    "metadata key with a dollar": Case(
        "upsert",
        ("docs", [vector(metadata={"deep": {"$a": 1}})]),
        ("docs", [vector(metadata={"deep": {"a$": 1}})]),
        40023,
        "'$a'",
    ),
    "empty metadata key": Case(
        "upsert",
        ("docs", [vector(metadata={"": 1})]),
        ("docs", [vector(metadata={" ": 1})]),
        40023,
        "''",
    ),
    "vector of other dimensions": Case(
        "upsert",
        ("docs", [vector(), vector("b", values=[1.0, 2.0])]),
        ("docs", [vector(), vector("b")]),
        40006,
        "expected 3 dimensions, and got 2 dimensions",
    ),
    "query of other dimensions": Case(
        "query",
        ("docs", [1.0] * 4),
        ("docs", [1.0] * 3),
        40006,
        "invalid query vector, expected 3 dimensions, and got 4 dimensions",
    ),
    "topK 101": Case(
        "query",
        ("docs", [1.0] * 3),
        ("docs", [1.0] * 3),
        40025,
        "max top K is 100, but got 101",
        ({"topK": 101}, {"topK": 100}),
    ),
    "topK 51 with all metadata": Case(
        "query",
        ("docs", [1.0] * 3),
        ("docs", [1.0] * 3),
        40025,
        "max top K is 50, but got 51",
        ({"topK": 51, "returnMetadata": "all"}, {"topK": 50, "returnMetadata": "all"}),
    ),
    "topK 51 with values": Case(
        "query",
        ("docs", [1.0] * 3),
        ("docs", [1.0] * 3),
        40025,
        "max top K is 50, but got 51",
        ({"topK": 51, "returnValues": True}, {"topK": 51, "returnMetadata": "indexed"}),
    ),
    "returnMetadata as a boolean": Case(
        "query",
        ("docs", [1.0] * 3),
        ("docs", [1.0] * 3),
        40026,
        "returnMetadata",
        ({"returnMetadata": True}, {"returnMetadata": "all"}),
    ),
    "filter of 2,048 bytes": Case(
        "query",
        ("docs", [1.0] * 3),
        ("docs", [1.0] * 3),
        40026,
        "must be less than 2048 bytes, got 2048 bytes",
        (sized_filter(2048), sized_filter(2047)),
    ),
    "empty filter": Case(
        "query",
        ("docs", [1.0] * 3),
        ("docs", [1.0] * 3),
        40026,
        "non-empty object",
        ({"filter": {}}, {"filter": {"lang": None}}),
    ),
    "21 ids to get": Case(
        "get_by_ids",
        ("docs", ids[:21]),
        ("docs", ids[:20]),
        40007,
        "too many ids in payload; max id count is 20, got 21",
    ),
    "101 ids to delete": Case(
        "delete_by_ids",
        ("docs", ids[:101]),
        ("docs", ids[:100]),
        40007,
        "too many ids in payload; max id count is 100, got 101",
    ),
    "101 texts": Case(
        "embed", (BGE, {"text": ["a"] * 101}), (BGE, {"text": ["a"] * 100}), 5006, "must be <= 100"
    ),
    "33 documents for qwen": Case(
        "embed",
        (QWEN, {"documents": ["a"] * 33}),
        (QWEN, {"documents": ["a"] * 32}),
        5006,
        "must be <= 32",
    ),
    "empty text": Case("embed", (BGE, {"text": ["a", ""]}), (BGE, {"text": ["a", " "]}), 5006, "'/text'"),
    "unknown pooling": Case(
        "embed",
        (BGE, {"text": "a", "pooling": "max"}),
        (BGE, {"text": "a", "pooling": "cls"}),
        5006,
        "'/pooling'",
    ),
    "context window of a request": Case(
        "embed",
        (BGE, {"text": [RARE * 400] * 100}),
        (BGE, {"text": [RARE * 300] * 100}),
        5021,
        "context window limit (153600)",
    ),
    "context window of a text": Case(
        "embed",
        (M3, {"text": [RARE * 2100]}),
        (M3, {"text": [RARE * 2100], "truncate_inputs": True}),
        5021,
        "context window limit (8192)",
    ),
    "unknown model": Case(
        "embed",
        ("@cf/no/model", {"text": "a"}),
        (BGE, {"text": "a"}),
        5007,
        "No such model @cf/no/model or task",
    ),
    "message of 128,001 bytes": Case(
        "send",
        ("ingest", [sized_message(128_001)]),
        ("ingest", [sized_message(128_000)]),
        10204,
        "128001 bytes exceeds limit of 128000",
    ),
    "101 messages": Case(
        "send",
        ("ingest", [sized_message(200)] * 101),
        ("ingest", [sized_message(200)] * 100),
        10206,
        "count of 101 exceeds limit of 100",
    ),
    "batch of 256,001 bytes": Case(
        "send",
        ("ingest", [sized_message(100_000), sized_message(100_000), sized_message(56_001)]),
        ("ingest", [sized_message(100_000), sized_message(100_000), sized_message(56_000)]),
        10205,
        "256001 bytes exceeds limit of 256000",
    ),
    "unknown queue": Case(
        "send", ("nowhere", [sized_message(200)]), ("ingest", [sized_message(200)]), 11000, "does not exist"
    ),
}


@pytest.fixture(autouse=True)
def account(server: Any) -> None:
    server.engines.vectorize.create("docs", None, DIMS, "cosine")
    server.engines.vectorize.create_metadata_index("docs", "lang", "string")
    server.engines.queues.create_queue("ingest")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_limit_is_refused_with_the_platforms_code_and_words_on_both_ways(way: Any, case: Case) -> None:
    call = getattr(way, case.call)
    with pytest.raises(ApiError) as refusal:
        call(*case.refused, **case.options[0])
    assert refusal.value.code == case.code
    assert case.message in refusal.value.message
    call(*case.accepted, **case.options[1])


def test_a_refused_upsert_writes_none_of_its_vectors(way: Any, server: Any) -> None:
    with pytest.raises(ApiError, match="expected 3 dimensions"):
        way.upsert("docs", [vector("good"), vector("bad", values=[1.0])])
    assert server.engines.vectorize.info("docs")["vectorCount"] == 0


def test_an_upsert_takes_1000_vectors_over_a_binding_and_5000_over_rest(way: Any, server: Any) -> None:
    most = way.largest_upsert
    with pytest.raises(ApiError, match=f"max vector count is {most}, got {most + 1}"):
        way.upsert("docs", [vector(str(number)) for number in range(most + 1)])
    way.upsert("docs", [vector(str(number)) for number in range(most)])
    assert server.engines.vectorize.info("docs")["vectorCount"] == most


def test_a_bindings_errors_read_as_the_runtime_words_them(server: Any) -> None:
    with pytest.raises(ApiError, match=r"^VECTOR_QUERY_ERROR \(code = 40025\): max top K is 100"):
        server.binding("vectorize/docs/query", [[1, 0, 0], {"topK": 200}])
    with pytest.raises(ApiError, match=r"^VECTOR_UPSERT_ERROR \(code = 40008\): id too long"):
        server.binding("vectorize/docs/upsert", [[vector("x" * 80)]])
    with pytest.raises(ApiError, match=r"^5007: No such model x or task$"):
        server.binding("ai/x", {"input": {"text": "a"}})
    with pytest.raises(ApiError, match=r"exceeds limit of 128000 \(10204\)$"):
        server.binding("queue/ingest/send", {"messages": [sized_message(130_000)]})
