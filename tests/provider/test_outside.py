"""Drift from outside: what is made again is whole, and what can't be made whole is refused."""

import json

import pytest

from infra.errors import CfragError
from infra.provider.account import ApiFailure
from infra.provider.values import Values
from tests.provider.replacing import BASE, LARGE, NEW, OLD, space
from tests.provider.rows import READY, REVISION, column, empty, filled, meta, metadata_index, put
from tests.provider.support import Direct, LocalCloudflare


def index(name: str, **changes: object) -> Values:
    owner = "cfrag:shop/dev"
    inputs = {"name": name, "dims": 768, "metric": "cosine", "generation": 1, "owner": owner}
    return {**inputs, "database": f"{name}-db", **changes}


# An index that is gone


async def test_a_missing_index_whose_documents_are_known_is_refused_with_what_to_do(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    filled(cloudflare, "lost-db", 3)
    (reason,) = (await direct.check("VectorizeIndex", index("lost"))).values()
    for words in ("index lost does not exist any more", "3 documents", "CFRAG_CREATE_INDEX=lost"):
        assert words in reason
    with pytest.raises(CfragError, match="does not exist any more"):
        await direct.create("VectorizeIndex", index("lost"))
    assert await direct.read("VectorizeIndex", "lost") is None


async def test_one_that_is_asked_for_by_name_is_made_empty_and_no_ingest_is_skipped_for_what_it_held(
    direct: Direct, cloudflare: LocalCloudflare, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = filled(cloudflare, "named-anew-db", 2)
    monkeypatch.setenv("CFRAG_CREATE_INDEX", "another")
    assert await direct.check("VectorizeIndex", index("named-anew"))
    monkeypatch.setenv("CFRAG_CREATE_INDEX", "named-anew")
    assert await direct.check("VectorizeIndex", index("named-anew")) == {}
    await direct.create("VectorizeIndex", index("named-anew"))
    assert column(cloudflare, database, "content_hash") == [None, None]
    assert column(cloudflare, database, "embed_model") == [None, None]
    assert "2 documents of generation 1 have no vector any more" in direct.messages.lines


async def test_a_missing_index_whose_documents_the_other_space_holds_is_made_again(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    database = empty(cloudflare, "other-db")
    old, new = space(1, BASE, 768, OLD, "main"), space(2, LARGE, 1024, NEW, "next")
    put(cloudflare, database, "space", old | {"other": new})
    row = f"'v0', 1, 'h', '{OLD}', 'h', '{NEW}'"
    columns = "id, seq, content_hash, embed_model, next_hash, next_model"
    cloudflare.sql(database, f"INSERT INTO documents({columns}) VALUES ({row})")
    inputs = index("other", dims=1024, generation=2)
    assert await direct.check("VectorizeIndex", inputs) == {}
    await direct.create("VectorizeIndex", inputs)
    assert column(cloudflare, database, "next_hash") == [None]
    assert column(cloudflare, database, "content_hash") == ["h"]


async def test_rows_that_nobody_has_verified_yet_count_as_documents(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    """The database was made again from the vectors a moment ago, and no Worker has seen it."""
    database = filled(cloudflare, "unseen-db", 2, content_hash=None, pending_hash="+", pending_at=1)
    cloudflare.sql(database, "DELETE FROM meta WHERE key = 'space'")
    (reason,) = (await direct.check("VectorizeIndex", index("unseen"))).values()
    assert "2 documents" in reason


async def test_the_index_of_a_stack_without_a_document_is_made_again(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    filled(cloudflare, "bare-db", 2, deleted_at=5, content_hash=None)
    assert await direct.check("VectorizeIndex", index("bare")) == {}


# A database that is gone


async def test_a_new_database_gets_a_row_for_every_vector(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    name = cloudflare.index("rebuilt", vectors=3)
    database = empty(cloudflare, "rebuilt-db")
    cloudflare.sql(database, "INSERT INTO documents(id, seq, content_hash) VALUES ('v1', 9, 'h')")
    inputs: Values = {"databaseId": database, "queueId": queue_of(cloudflare, "rebuilt"), "index": name}
    inputs |= {"fingerprint": "m#1", "generation": 1, "schemaRevision": REVISION}
    await direct.create("SpaceActivation", inputs)
    assert column(cloudflare, database, "id") == ["v0", "v1", "v2"]
    assert column(cloudflare, database, "content_hash") == [None, "h", None]
    assert column(cloudflare, database, "pending_hash") == ["+", None, "+"]
    assert "schema" not in meta(cloudflare, database)
    assert any("knew nothing of 2 documents" in line for line in direct.messages.lines)


async def test_a_new_database_is_told_which_metadata_indexes_were_made_before_it(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    name = cloudflare.index("both-gone", vectors=1)
    await direct.create("VectorizeMetadataIndex", metadata_index(name, propertyName="tags", database=None))
    await direct.create("VectorizeMetadataIndex", metadata_index(name))
    database = empty(cloudflare, "both-gone-db")
    inputs = {"databaseId": database, "queueId": queue_of(cloudflare, "both-gone"), "index": name}
    fixed = {"fingerprint": "m#1", "generation": 1, "schemaRevision": REVISION}
    await direct.create("SpaceActivation", inputs | fixed)
    assert meta(cloudflare, database)["schema"] == {
        "revision": REVISION,
        "ready": ["tags:string"],
        "again": ["kind:string"],
    }


async def test_a_database_that_knows_its_index_is_left_as_it_is(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    name = cloudflare.index("known", vectors=2)
    database = filled(cloudflare, "known-db", 2)
    inputs = {"databaseId": database, "queueId": queue_of(cloudflare, "known"), "index": name}
    await direct.create("SpaceActivation", inputs | {"fingerprint": "m#1", "generation": 1})
    assert column(cloudflare, database, "pending_hash") == [None, None]
    assert meta(cloudflare, database)["schema"]["ready"] == READY


def queue_of(cloudflare: LocalCloudflare, name: str) -> str:
    made = cloudflare.client.queues.create(account_id=cloudflare.account, queue_name=f"{name}-queue")
    assert made
    return str(made.queue_id)


async def test_a_replacement_whose_database_is_gone_may_only_be_aborted(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    old = cloudflare.index("adrift-768-g1", vectors=1)
    replaced = {"generation": 1, "model": BASE, "dims": 768, "metric": "cosine", "index": old}
    under_way = {
        "owner": "cfrag:shop/adrift",
        "database": "adrift-db",
        "index": "adrift-1024-g2",
        "model": LARGE,
        "dims": 1024,
        "metric": "cosine",
        "generation": 2,
        "replacing": replaced | {"strategy": "reindex"},
    }
    finish = {key: value for key, value in under_way.items() if key != "replacing"}
    abort = finish | {"index": old, "model": BASE, "dims": 768, "generation": 1}
    for wanted in (under_way, finish):
        (reason,) = (await direct.check("EmbeddingSpace", wanted, under_way)).values()
        assert "database adrift-db is gone" in reason
        assert "abort with" in reason
    assert await direct.check("EmbeddingSpace", abort, under_way) == {}


# A migration that somebody else applied


async def test_a_migration_of_ours_that_wrangler_applied_is_quiet_and_a_foreign_one_is_said(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    database = cloudflare.database("foreign-ledger")
    files = {"0001_init.sql": "CREATE TABLE a(id TEXT);"}
    inputs: Values = {"databaseId": database, "migrations": files}
    made, state = await direct.create("D1Migrations", inputs)
    direct.messages.lines.clear()
    await direct.read("D1Migrations", made, state)
    assert direct.messages.lines == []

    cloudflare.sql(database, "INSERT INTO d1_migrations(name) VALUES ('0002_theirs.sql')")
    refreshed = await direct.read("D1Migrations", made, state)
    assert refreshed
    assert refreshed["applied"] == ["0001_init.sql", "0002_theirs.sql"]
    (said,) = direct.messages.lines
    assert "0002_theirs.sql" in said
    assert "migrations/" in said
    assert not (await direct.diff("D1Migrations", refreshed, inputs)).changes

    ours = inputs | {"migrations": files | {"0002_ours.sql": "CREATE TABLE b(id TEXT);"}}
    reasons = await direct.check("D1Migrations", ours, inputs)
    assert "0002_ours.sql has the number of 0002_theirs.sql" in reasons["migrations"]
    theirs = inputs | {"migrations": files | {"0002_theirs.sql": "CREATE TABLE b(id TEXT);"}}
    assert await direct.check("D1Migrations", theirs, inputs) == {}
    assert json.dumps(await direct.update("D1Migrations", made, refreshed, theirs)).count("0002_theirs") == 2


async def test_a_preview_that_may_not_ask_the_database_says_so(
    direct: Direct, cloudflare: LocalCloudflare, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> int:
        raise ApiFailure("cannot count: Authentication error (HTTP 403)", 403, frozenset({10000}))

    filled(cloudflare, "unread-db", 1)
    monkeypatch.setattr("infra.provider.outside.lost_documents", refused)
    assert await direct.check("VectorizeIndex", index("unread")) == {}
    assert any(
        "whether documents are lost with index unread can't be read" in line for line in direct.messages.lines
    )
    with pytest.raises(CfragError, match="403"):
        await direct.create("VectorizeIndex", index("unread"))
