"""A metadata index that was removed: made again, and every vector with it."""

from infra.provider.values import Values
from tests.provider.rows import READY, REVISION, column, filled, meta, metadata_index
from tests.provider.support import Direct, LocalCloudflare


async def test_a_metadata_index_that_was_removed_has_every_vector_written_again(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    name = cloudflare.index("removed", vectors=2)
    database = filled(cloudflare, "removed-db", 2)
    await direct.create("VectorizeMetadataIndex", metadata_index(name))
    assert column(cloudflare, database, "schema_rev") == [None, None]
    assert column(cloudflare, database, "content_hash") == ["h", "h"]
    found = meta(cloudflare, database)
    assert found["schema"] == {
        "revision": REVISION,
        "ready": ["active:boolean", "tags:string"],
        "again": ["kind:string"],
    }
    assert not [key for key in found if key.startswith("indexing:")]
    assert any("every vector is written again" in line for line in direct.messages.lines)


async def test_one_that_exists_already_is_taken_up_and_nothing_is_written_again(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    name = cloudflare.index("kept", vectors=1)
    await direct.create("VectorizeMetadataIndex", metadata_index(name, database=None))
    database = filled(cloudflare, "kept-db", 1)
    await direct.create("VectorizeMetadataIndex", metadata_index(name))
    assert column(cloudflare, database, "schema_rev") == [REVISION]
    assert meta(cloudflare, database)["schema"]["ready"] == READY


async def test_a_repair_that_was_killed_is_brought_to_its_end(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    """The metadata index is there, but D1 was not told yet that nothing is in it."""
    name = cloudflare.index("half", vectors=1)
    await direct.create("VectorizeMetadataIndex", metadata_index(name, database=None))
    database = filled(cloudflare, "half-db", 1)
    cloudflare.sql(database, "INSERT INTO meta VALUES ('indexing:half/kind', '1')")
    await direct.create("VectorizeMetadataIndex", metadata_index(name))
    assert column(cloudflare, database, "schema_rev") == [None]
    assert meta(cloudflare, database)["schema"]["again"] == ["kind:string"]


async def test_a_write_under_way_that_may_have_missed_it_loses(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    name = cloudflare.index("racing", vectors=1)
    database = filled(cloudflare, "racing-db", 1, pending_at=5, pending_hash="h2")
    cloudflare.sql(database, "INSERT INTO documents(id, seq, schema_rev) VALUES ('w', 7, 'x')")
    await direct.create("VectorizeMetadataIndex", metadata_index(name))
    assert column(cloudflare, database, "seq") == [2, 7]


async def test_the_first_metadata_index_of_an_empty_index_asks_nothing_of_the_database(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    name = cloudflare.index("first")
    database = filled(cloudflare, "first-db", 1)
    await direct.create("VectorizeMetadataIndex", metadata_index(name))
    assert column(cloudflare, database, "schema_rev") == [REVISION]


async def test_a_metadata_index_of_another_type_is_refused_at_preview(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    name = cloudflare.index("typed")
    await direct.create("VectorizeMetadataIndex", metadata_index(name, indexType="number"))
    reasons = await direct.check("VectorizeMetadataIndex", metadata_index(name))
    assert "kind is indexed in typed as number, not as string" in reasons["indexType"]


async def test_a_metadata_index_that_was_made_again_starts_a_sweep(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    database = filled(cloudflare, "swept-db", 0)
    made = cloudflare.client.queues.create(account_id=cloudflare.account, queue_name="swept")
    assert made
    assert made.queue_id
    queue = str(made.queue_id)
    cloudflare.client.queues.consumers.create(queue, account_id=cloudflare.account, type="http_pull")
    inputs: Values = {"databaseId": database, "queueId": queue, "fingerprint": "m#1", "generation": 1}
    before = inputs | {"indexed": {"g1-kind": "one"}}
    await direct.update("SpaceActivation", database, before, inputs | {"indexed": {"g1-kind": "two"}})
    await direct.update("SpaceActivation", database, before, before)
    answer = cloudflare.client.queues.messages.pull(queue, account_id=cloudflare.account, batch_size=10)
    assert len((answer.messages if answer else None) or ()) == 1
