"""What exists under a stack's names: found by name, checked, and left alone."""

import json
from typing import Any

from pulumi.provider.experimental import provider as sdk

from infra.provider.adoption import TOKEN
from infra.provider.values import to_plain_map, to_properties
from tests.provider.rows import empty
from tests.provider.support import Direct, LocalCloudflare

MIGRATIONS = ["0001_init.sql"]
TABLES = ["api_keys", "documents", "meta"]
Found = dict[str, Any]


async def find(direct: Direct, name: str, **changes: Any) -> Found:
    """The answer for a stack with an index, a database, two queues and a Worker, all named after `name`."""
    wanted = {
        "indexes": [
            {"name": f"{name}-index", "dims": 768, "metric": "cosine", "metadata": {"kind": "string"}}
        ],
        "databases": {"db": {"name": f"{name}-db", "migrations": MIGRATIONS, "tables": TABLES}},
        "queues": {
            "ingest": {"name": f"{name}-ingest", "consumer": f"{name}-worker"},
            "ingest-dlq": {"name": f"{name}-dlq", "consumer": None},
        },
        "workers": {"worker": f"{name}-worker"},
    }
    answer = await direct.plugin.invoke(sdk.InvokeRequest(TOKEN, to_properties(wanted | changes)))
    return to_plain_map(answer.return_value or {})


def queue(cloudflare: LocalCloudflare, name: str) -> str:
    made = cloudflare.client.queues.create(account_id=cloudflare.account, queue_name=name)
    assert made
    return str(made.queue_id)


async def test_where_nothing_exists_nothing_is_imported(direct: Direct) -> None:
    assert await find(direct, "nowhere") == {"ids": {}, "refused": []}


async def test_everything_of_the_names_is_found_with_the_id_to_import(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    cloudflare.index("all-index")
    database = empty(cloudflare, "all-db")
    empty(cloudflare, "all-db-2")  # the API's filter finds it too
    cloudflare.sql(database, "CREATE TABLE d1_migrations(name TEXT)")
    cloudflare.sql(database, "INSERT INTO d1_migrations VALUES ('0001_init.sql')")
    ingest, dlq = queue(cloudflare, "all-ingest"), queue(cloudflare, "all-dlq")
    cloudflare.client.queues.consumers.create(dlq, account_id=cloudflare.account, type="http_pull")
    worker = cloudflare.client.workers.beta.workers.create(account_id=cloudflare.account, name="all-worker")
    found = await find(direct, "all")
    account = cloudflare.account
    assert found["refused"] == []
    assert found["ids"] == {
        "db": f"{account}/{database}",
        "ingest": f"{account}/{ingest}",
        "ingest-dlq": f"{account}/{dlq}",
        "worker": f"{account}/{worker.id}",
    }


async def test_what_the_state_knows_is_not_asked_for(direct: Direct, cloudflare: LocalCloudflare) -> None:
    queue(cloudflare, "known-ingest")
    found = await find(direct, "known", queues={}, indexes=[], databases={}, workers={})
    assert found == {"ids": {}, "refused": []}


async def test_an_empty_database_and_one_with_tables_of_others_can_be_taken_over(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    cloudflare.database("vacant-db")
    cloudflare.database("shared-db", "CREATE TABLE orders(id TEXT)")
    for name in ("vacant", "shared"):
        assert (await find(direct, name))["refused"] == []


async def test_every_misfit_is_named_at_once(direct: Direct, cloudflare: LocalCloudflare) -> None:
    account = cloudflare.account
    cloudflare.index("misfit-index", 384, vectors=1)
    cloudflare.client.vectorize.indexes.metadata_index.create(
        "misfit-index", account_id=account, property_name="kind", index_type="number"
    )
    cloudflare.database("misfit-db", "CREATE TABLE documents(title TEXT)")
    queue(cloudflare, "misfit-dlq")
    ingest = queue(cloudflare, "misfit-ingest")
    cloudflare.client.queues.consumers.create(ingest, account_id=account, type="http_pull")
    refused = (await find(direct, "misfit"))["refused"]
    said = [
        "index misfit-index has 384 dims and metric cosine, not 768 and cosine",
        "a metadata index kind of type number, not string",
        "vectors that this service did not write, such as 'v0'",
        "database misfit-db has tables documents that no migration of this project has made",
        "queue misfit-ingest is consumed by pulling, not by Worker misfit-worker",
    ]
    assert len(refused) == len(said)
    for reason, words in zip(refused, said, strict=True):
        assert words in reason


async def test_a_ledger_of_another_project_with_files_of_the_same_name_is_refused(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    cloudflare.database(
        "namesake-db",
        "CREATE TABLE d1_migrations(name TEXT)",
        "INSERT INTO d1_migrations VALUES ('0001_init.sql')",
        "CREATE TABLE documents(id TEXT)",
    )
    (reason,) = (await find(direct, "namesake"))["refused"]
    assert "lacks tables api_keys, meta, although its ledger says that 0001_init.sql was applied" in reason


async def test_vectors_of_this_service_are_taken_over(direct: Direct, cloudflare: LocalCloudflare) -> None:
    cloudflare.index("ours-index")
    vector = {"id": "a", "values": [1.0] * 768, "metadata": {"rawBody": "text", "contentHash": "v1:0"}}
    cloudflare.client.post(
        f"/accounts/{cloudflare.account}/vectorize/v2/indexes/ours-index/upsert",
        cast_to=object,
        content=json.dumps(vector).encode(),
        options={"headers": {"Content-Type": "application/x-ndjson"}},
    )
    assert (await find(direct, "ours"))["refused"] == []
