"""Vectorize's REST API as its clients call it: the official SDK, wrangler's and LangChain's requests."""

import json
import warnings
from typing import Any
from uuid import UUID

import cloudflare
import pytest

ACCOUNT = "0123456789abcdef0123456789abcdef"
VECTORS = [
    {"id": "a", "values": [1.0, 0.0], "metadata": {"lang": "en"}, "namespace": "n"},
    {"id": "b", "values": [0.0, 1.0]},
]
NDJSON = b"\n".join(json.dumps(vector).encode() for vector in VECTORS) + b"\n"
INDEX = "/vectorize/v2/indexes/docs"


@pytest.fixture
def indexes(server: Any) -> Any:
    """The SDK's Vectorize, with an index `docs` of 2 dimensions."""
    made = server.client.vectorize.indexes
    made.create(
        account_id=ACCOUNT,
        name="docs",
        description="cfrag:demo/local/g1",
        config={"dimensions": 2, "metric": "cosine"},
    )
    return made


def upsert(indexes: Any, body: bytes, **more: Any) -> Any:
    with warnings.catch_warnings():
        # The SDK warns about its own way to post this body.
        warnings.simplefilter("ignore", DeprecationWarning)
        return indexes.upsert("docs", account_id=ACCOUNT, body=body, **more)


def test_an_index_is_created_read_listed_and_deleted(indexes: Any) -> None:
    index = indexes.get("docs", account_id=ACCOUNT)
    assert (index.name, index.description) == ("docs", "cfrag:demo/local/g1")
    assert (index.config.dimensions, index.config.metric) == (2, "cosine")
    assert index.created_on.tzinfo is not None
    assert [one.name for one in indexes.list(account_id=ACCOUNT)] == ["docs"]
    assert indexes.delete("docs", account_id=ACCOUNT) is None
    assert list(indexes.list(account_id=ACCOUNT)) == []
    with pytest.raises(cloudflare.APIStatusError) as gone:
        indexes.get("docs", account_id=ACCOUNT)
    assert gone.value.status_code == 410


def test_a_preset_decides_dimensions_and_metric(indexes: Any) -> None:
    made = indexes.create(account_id=ACCOUNT, name="preset", config={"preset": "@cf/baai/bge-large-en-v1.5"})
    assert (made.config.dimensions, made.config.metric) == (1024, "cosine")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": "docs", "config": {"dimensions": 2, "metric": "cosine"}}, 3002),
        ({"name": "x" * 65, "config": {"dimensions": 2, "metric": "cosine"}}, 3001),
        ({"name": "a b", "config": {"dimensions": 2, "metric": "cosine"}}, 3001),
        ({"name": "new", "config": {"dimensions": 1537, "metric": "cosine"}}, 3001),
        ({"name": "new", "config": {"dimensions": 0, "metric": "cosine"}}, 3001),
        ({"name": "new", "config": {"dimensions": 2, "metric": "dot_product"}}, 3001),
        ({"name": "new", "config": {"preset": "nope"}}, 3001),
        ({"name": "new"}, 3001),
    ],
)
def test_a_wrong_index_is_refused(indexes: Any, server: Any, body: Any, code: int) -> None:
    answer = server.rest("POST", "/vectorize/v2/indexes", json=body)
    assert answer.status_code == 400
    assert answer.json()["success"] is False
    assert answer.json()["errors"][0]["code"] == code
    assert [one.name for one in indexes.list(account_id=ACCOUNT)] == ["docs"]


def test_vectors_go_round_through_the_sdk(indexes: Any) -> None:
    indexes.metadata_index.create("docs", account_id=ACCOUNT, property_name="lang", index_type="string")
    assert UUID(upsert(indexes, NDJSON).mutation_id)
    (found,) = indexes.query(
        "docs",
        account_id=ACCOUNT,
        vector=[1.0, 0.0],
        top_k=5,
        filter={"lang": "en"},
        return_metadata="all",
        return_values=True,
    ).matches
    assert (found.id, found.namespace, found.score) == ("a", "n", 1.0)
    assert (found.metadata, found.values) == ({"lang": "en"}, [1.0, 0.0])
    got = indexes.get_by_ids("docs", account_id=ACCOUNT, ids=["b", "nope"])
    assert got == [{"id": "b", "values": [0.0, 1.0]}]
    assert UUID(indexes.delete_by_ids("docs", account_id=ACCOUNT, ids=["a"]).mutation_id)
    info = indexes.info("docs", account_id=ACCOUNT)
    assert (info.vector_count, info.dimensions) == (1, 2)
    listed = indexes.list_vectors("docs", account_id=ACCOUNT, count=1)
    assert ([one.id for one in listed.vectors], listed.is_truncated, listed.total_count) == (["b"], False, 1)


def test_an_insert_through_the_sdk_keeps_what_is_there(indexes: Any) -> None:
    upsert(indexes, NDJSON)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        indexes.insert("docs", account_id=ACCOUNT, body=NDJSON.replace(b"1.0", b"0.5"))
    assert indexes.get_by_ids("docs", account_id=ACCOUNT, ids=["a"])[0]["values"] == [1.0, 0.0]


def test_wranglers_form_upload_is_taken(indexes: Any, server: Any) -> None:
    files = {"vectors": ("vectors.ndjson", NDJSON, "application/x-ndjson")}
    answer = server.rest("POST", f"{INDEX}/upsert?unparsable-behavior=error", files=files)
    assert UUID(answer.json()["result"]["mutationId"])
    assert indexes.info("docs", account_id=ACCOUNT).vector_count == 2


def test_langchains_raw_ndjson_body_is_taken(indexes: Any, server: Any) -> None:
    headers = {"Content-Type": "application/x-ndjson"}
    assert server.rest("POST", f"{INDEX}/upsert", content=NDJSON, headers=headers).status_code == 200
    assert indexes.info("docs", account_id=ACCOUNT).vector_count == 2


def test_a_form_without_vectors_is_refused(indexes: Any, server: Any) -> None:
    answer = server.rest("POST", f"{INDEX}/upsert", files={"other": ("x", NDJSON, "application/x-ndjson")})
    assert answer.json()["errors"][0]["code"] == 40023


def test_an_unparsable_line_fails_the_upload_or_is_discarded(indexes: Any) -> None:
    broken = NDJSON + b'{"id": "c", \n'
    with pytest.raises(cloudflare.BadRequestError, match="line 3"):
        upsert(indexes, broken)
    assert indexes.info("docs", account_id=ACCOUNT).vector_count == 0
    upsert(indexes, broken, unparsable_behavior="discard")
    assert indexes.info("docs", account_id=ACCOUNT).vector_count == 2


def test_wranglers_query_by_vector_id_and_namespace_works(indexes: Any, server: Any) -> None:
    upsert(indexes, NDJSON)
    body = {"vectorId": "b", "namespace": "n", "topK": 3}
    result = server.rest("POST", f"{INDEX}/query", json=body).json()["result"]
    assert (result["count"], result["matches"][0]["id"]) == (1, "a")


@pytest.mark.parametrize("call", ["metadata_index/create", "metadata_index/delete", "query", "get_by_ids"])
def test_json_sent_as_anything_else_is_refused(indexes: Any, server: Any, call: str) -> None:
    body = json.dumps({"propertyName": "x", "indexType": "string"})
    answer = server.rest("POST", f"{INDEX}/{call}", content=body, headers={"Content-Type": "text/plain"})
    assert answer.status_code == 400
    assert answer.json()["errors"][0] == {
        "code": 40026,
        "message": "Expected request with `Content-Type: application/json`",
    }


def test_metadata_indexes_are_created_listed_and_deleted_as_mutations(indexes: Any) -> None:
    resource = indexes.metadata_index
    made = resource.create("docs", account_id=ACCOUNT, property_name="lang", index_type="string")
    assert UUID(made.mutation_id)
    assert indexes.info("docs", account_id=ACCOUNT).processed_up_to_mutation == made.mutation_id
    (listed,) = resource.list("docs", account_id=ACCOUNT).metadata_indexes
    assert (listed.property_name, listed.index_type) == ("lang", "string")
    assert UUID(resource.delete("docs", account_id=ACCOUNT, property_name="lang").mutation_id)
    assert resource.list("docs", account_id=ACCOUNT).metadata_indexes == []
    with pytest.raises(cloudflare.BadRequestError, match="40005"):
        resource.delete("docs", account_id=ACCOUNT, property_name="lang")


def test_eleven_metadata_indexes_are_too_many(indexes: Any) -> None:
    resource = indexes.metadata_index
    for number in range(10):
        resource.create("docs", account_id=ACCOUNT, property_name=f"f{number}", index_type="number")
    with pytest.raises(cloudflare.BadRequestError, match="max metadata index count is 10"):
        resource.create("docs", account_id=ACCOUNT, property_name="f10", index_type="number")


def test_writes_wait_for_the_delay_over_rest_as_well(indexes: Any, server: Any) -> None:
    server.engines.vectorize.delay = 60
    upsert(indexes, NDJSON)
    assert indexes.info("docs", account_id=ACCOUNT).vector_count == 0
    assert indexes.get_by_ids("docs", account_id=ACCOUNT, ids=["a"]) == []
    server.engines.vectorize.delay = 0
    assert indexes.info("docs", account_id=ACCOUNT).vector_count == 2


@pytest.mark.parametrize("count", ["0", "1001", "x"])
def test_a_page_holds_one_to_1000_ids(indexes: Any, server: Any, count: str) -> None:
    assert server.rest("GET", f"{INDEX}/list?count={count}").json()["errors"][0]["code"] == 40026
