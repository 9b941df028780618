"""Vectorize, Workers AI and queue bindings: what reaches the API, and how its errors come back."""

import pytest

from tests.workerd.support import Api, Cell

INDEX = "vectorize/docs-384-g1"
MODEL = "@cf/baai/bge-small-en-v1.5"


def vectorize(cell: Cell, op: str, *args: object) -> object:
    return cell.post("probe", "/vectorize", {"op": op, "args": list(args)})


def test_query_carries_vector_and_options(cell: Cell, api: Api) -> None:
    matches = {"count": 1, "matches": [{"id": "a", "score": 0.5, "metadata": {"title": None}}]}
    api.answer(f"{INDEX}/query", {"ok": matches})
    options = {"topK": 5, "returnMetadata": "all", "filter": {"active": {"$eq": True}}}
    assert vectorize(cell, "query", [0.25, 1], options) == matches
    assert api.calls == [(f"{INDEX}/query", [[0.25, 1], options], "probe")]


@pytest.mark.parametrize(
    ("op", "args", "sent"),
    [
        ("queryById", ["a", {"topK": 3}], ["a", {"topK": 3}]),
        ("getByIds", [["a", "b"]], [["a", "b"]]),
        ("deleteByIds", [["a"]], [["a"]]),
        ("describe", [], []),
        ("insert", [[{"id": "a", "values": [1, 0]}]], [[{"id": "a", "values": [1, 0]}]]),
    ],
)
def test_each_method_reaches_its_endpoint(
    cell: Cell, api: Api, op: str, args: list[object], sent: list[object]
) -> None:
    api.answer(f"{INDEX}/{op}", {"ok": {"op": op}})
    assert vectorize(cell, op, *args) == {"op": op}
    assert api.bodies(f"{INDEX}/{op}") == [sent]


def test_upsert_carries_metadata_of_every_type(cell: Cell, api: Api) -> None:
    api.answer(f"{INDEX}/upsert", {"ok": {"mutationId": "m1"}})
    metadata = {"title": 'Über\n"x"', "n": 1.5, "flag": True, "none": None, "list": ["a"]}
    vectors = [{"id": f"doc {i}", "values": [0.5, -0.5], "metadata": metadata} for i in range(2)]
    assert vectorize(cell, "upsert", vectors) == {"mutationId": "m1"}
    assert api.bodies(f"{INDEX}/upsert") == [[vectors]]


@pytest.mark.parametrize(
    "error",
    [
        {"message": "vectors must have 384 dimensions", "code": 40012},
        {"message": "VECTOR_QUERY_ERROR (code = 40012): vectors must have 384 dimensions"},
    ],
)
def test_vectorize_error_has_cloudflares_words_and_code(
    cell: Cell, api: Api, error: dict[str, object]
) -> None:
    api.answer(f"{INDEX}/query", {"error": error})
    answer = vectorize(cell, "query", [1])
    assert isinstance(answer, dict)
    assert answer["type"] == "JsException"
    assert answer["error"] == "Error: VECTOR_QUERY_ERROR (code = 40012): vectors must have 384 dimensions"


def test_ai_run_carries_the_input(cell: Cell, api: Api) -> None:
    vectors = {"shape": [2, 1], "data": [[1], [0.5]], "pooling": "cls"}
    api.answer(f"ai/{MODEL}", {"ok": vectors})
    request = {"text": ["a", "ü"], "pooling": "cls"}
    assert cell.post("probe", "/ai", {"model": MODEL, "input": request}) == vectors
    assert api.bodies(f"ai/{MODEL}") == [{"input": request, "options": {}}]


def test_ai_error_is_an_inference_error_with_the_message_unchanged(cell: Cell, api: Api) -> None:
    api.answer(f"ai/{MODEL}", {"error": {"message": "3030: too many texts"}})
    answer = cell.post("probe", "/ai", {"model": MODEL, "input": {"text": []}})
    assert answer["error"] == "InferenceUpstreamError: 3030: too many texts"
    api.answer(f"ai/{MODEL}", {"error": {"message": "too many texts", "code": 3030}})
    answer = cell.post("probe", "/ai", {"model": MODEL, "input": {"text": []}})
    assert answer["error"] == "InferenceUpstreamError: 3030: too many texts"


def test_queue_send_carries_type_and_delay(cell: Cell, api: Api) -> None:
    api.answer("queue/ingest/send", {"ok": {}})
    body = {"doc": {"id": "a", "title": None, "tags": ["ä"]}}
    assert cell.post("probe", "/send", {"body": body, "options": {"delaySeconds": 30}}) == "sent"
    assert cell.post("probe", "/send", {"body": "words", "options": {"contentType": "text"}}) == "sent"
    assert api.bodies("queue/ingest/send") == [
        {"messages": [{"body": body, "contentType": "json", "delaySeconds": 30}]},
        {"messages": [{"body": "words", "contentType": "text"}]},
    ]


def test_queue_batch_is_one_call(cell: Cell, api: Api) -> None:
    api.answer("queue/ingest/send", {"ok": {}})
    batch = [{"body": {"n": 1}}, {"body": {"n": 2}, "delaySeconds": 4}]
    assert cell.post("probe", "/send_batch", batch) == "sent"
    assert api.bodies("queue/ingest/send") == [
        {
            "messages": [
                {"body": {"n": 1}, "contentType": "json"},
                {"body": {"n": 2}, "contentType": "json", "delaySeconds": 4},
            ]
        }
    ]


@pytest.mark.parametrize("number", ["", " (10250)"])
def test_queue_error_says_why(cell: Cell, api: Api, number: str) -> None:
    overloaded = {"message": f"Queue is overloaded. Please back off.{number}", "code": 10250}
    api.answer("queue/ingest/send", {"error": overloaded})
    answer = cell.post("probe", "/send", {"body": {}})
    assert answer["error"] == "Error: Queue is overloaded. Please back off. (10250)"


def test_javascript_worker_has_the_same_bindings(cell: Cell, api: Api) -> None:
    api.answer(f"{INDEX}/query", {"ok": {"count": 0, "matches": []}})
    assert cell.get("caller", "/vectorize") == {"count": 0, "matches": []}
    assert api.calls == [(f"{INDEX}/query", [[0.5, 0.25], {"topK": 2, "returnMetadata": "all"}], "caller")]
    api.answer(f"ai/{MODEL}", {"error": {"message": "no capacity", "code": 3040}})
    assert cell.get("caller", "/ai") == {"error": "3040: no capacity", "name": "InferenceUpstreamError"}
    api.answer("queue/ingest/send", {"ok": {}})
    cell.get("caller", "/send")
    cell.get("caller", "/bytes")
    assert api.bodies("queue/ingest/send") == [
        {"messages": [{"body": {"from": "js"}, "contentType": "json", "delaySeconds": 5}]},
        {"messages": [{"body": "Af8=", "contentType": "bytes"}]},
    ]


def test_javascript_worker_logs_under_its_name(cell: Cell) -> None:
    cell.get("caller", "/log")
    assert cell.logged("logged by the caller")["worker"] == "caller"
