"""Migrations: each applied once, whole or not at all, and never edited afterwards."""

import pytest

from infra.errors import CfragError
from infra.provider.resources.d1_migrations import statements_of
from infra.provider.values import Values
from tests.provider.support import Direct, LocalCloudflare

KIND = "D1Migrations"
INIT = "CREATE TABLE docs(id TEXT PRIMARY KEY, n INTEGER);\n"
TRIGGER = """-- counts; every write
CREATE TABLE counts(n INTEGER);
INSERT INTO counts VALUES (0);
CREATE TRIGGER counted AFTER INSERT ON docs BEGIN
  UPDATE counts SET n = n + 1;
  UPDATE docs SET n = (SELECT n FROM counts) WHERE id = new.id;
END;
"""
BROKEN = "CREATE TABLE half(id TEXT);\nINSERT INTO nowhere VALUES (1);\n"


def wanted(database: str, **files: str) -> Values:
    names = {"init": "0001_init.sql", "trigger": "0002_trigger.sql", "broken": "0010_broken.sql"}
    return {"databaseId": database, "migrations": {names[key]: sql for key, sql in files.items()}}


def tables(cloudflare: LocalCloudflare, database: str) -> set[str]:
    return {row["name"] for row in cloudflare.sql(database, "SELECT name FROM sqlite_master")}


async def test_files_are_applied_whole_in_the_order_of_their_numbers(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    database = cloudflare.database("migrated")
    _, state = await direct.create(KIND, wanted(database, trigger=TRIGGER, init=INIT))
    assert state["applied"] == ["0001_init.sql", "0002_trigger.sql"]
    cloudflare.sql(database, "INSERT INTO docs(id) VALUES ('a')")
    assert cloudflare.sql(database, "SELECT n FROM docs") == [{"n": 1}]


async def test_the_ledger_is_the_one_of_wrangler(direct: Direct, cloudflare: LocalCloudflare) -> None:
    database = cloudflare.database("ledger")
    await direct.create(KIND, wanted(database, init=INIT))
    (row,) = cloudflare.sql(database, "SELECT id, name, applied_at FROM d1_migrations")
    assert (row["id"], row["name"]) == (1, "0001_init.sql")
    assert row["applied_at"].startswith("20")


async def test_what_wrangler_has_applied_is_not_applied_again(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    database = cloudflare.database(
        "wrangled",
        "CREATE TABLE d1_migrations(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE,"
        " applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)",
        "INSERT INTO d1_migrations(name) VALUES ('0001_init.sql')",
        INIT,
    )
    _, state = await direct.create(KIND, wanted(database, init=INIT, trigger=TRIGGER))
    assert state["applied"] == ["0001_init.sql", "0002_trigger.sql"]
    edited = wanted(database, init=INIT + "-- later", trigger=TRIGGER)
    assert "0001_init.sql was edited" in (await direct.check(KIND, edited))["migrations"]


async def test_a_failed_file_says_why_and_leaves_nothing_half_done(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    database = cloudflare.database("failed")
    with pytest.raises(CfragError, match=r"0010_broken\.sql.*no such table: nowhere"):
        await direct.create(KIND, wanted(database, init=INIT, broken=BROKEN))
    assert "docs" in tables(cloudflare, database)
    assert "half" not in tables(cloudflare, database)


async def test_a_run_that_failed_goes_on_once_the_file_is_corrected(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    database = cloudflare.database("resumed")
    with pytest.raises(CfragError):
        await direct.create(KIND, wanted(database, init=INIT, broken=BROKEN))
    corrected = wanted(database, init=INIT, broken="CREATE TABLE half(id TEXT);")
    assert await direct.check(KIND, corrected) == {}
    _, state = await direct.create(KIND, corrected)
    assert state["applied"] == ["0001_init.sql", "0010_broken.sql"]


async def test_an_edited_file_that_was_applied_is_refused(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    database = cloudflare.database("edited")
    before = wanted(database, init=INIT)
    await direct.create(KIND, before)
    after = wanted(database, init=INIT.replace("INTEGER", "TEXT"))
    for old in (before, None):  # with the state, and with the state lost
        assert (
            "0001_init.sql was edited after it was applied"
            in (await direct.check(KIND, after, old))["migrations"]
        )
    crlf = wanted(database, init=INIT.replace("\n", "\r\n"))
    assert await direct.check(KIND, crlf, before) == {}


async def test_a_removed_file_is_refused(direct: Direct, cloudflare: LocalCloudflare) -> None:
    database = cloudflare.database("removed")
    before = wanted(database, init=INIT, trigger=TRIGGER)
    reasons = await direct.check(KIND, wanted(database, trigger=TRIGGER), before)
    assert "0001_init.sql is missing now" in reasons["migrations"]


async def test_a_new_file_is_the_only_difference_shown(direct: Direct) -> None:
    old = wanted("db", init=INIT) | {"applied": ["0001_init.sql"]}
    diff = await direct.diff(KIND, old, wanted("db", init=INIT, trigger=TRIGGER))
    assert list(diff.detailed_diff) == ['migrations["0002_trigger.sql"]']
    assert not (await direct.diff(KIND, old, wanted("db", init=INIT))).changes


async def test_a_migration_that_the_database_has_lost_is_applied_again(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    database = cloudflare.database("restored")
    inputs = wanted(database, init=INIT)
    made, state = await direct.create(KIND, inputs)
    cloudflare.sql(database, "DELETE FROM d1_migrations")
    cloudflare.sql(database, "DROP TABLE docs")
    refreshed = await direct.read(KIND, made, state)
    assert refreshed is not None
    assert refreshed["applied"] == []
    assert (await direct.diff(KIND, refreshed, inputs)).changes
    assert (await direct.update(KIND, made, refreshed, inputs))["applied"] == ["0001_init.sql"]


async def test_a_deleted_database_is_read_as_missing(direct: Direct) -> None:
    assert await direct.read(KIND, "00000000-0000-0000-0000-000000000000") is None


@pytest.mark.parametrize("name", ["init.sql", "0001_init.txt", "1/../init.sql"])
async def test_a_file_without_a_number_is_refused(direct: Direct, name: str) -> None:
    reasons = await direct.check(KIND, {"databaseId": "db", "migrations": {name: "SELECT 1"}})
    assert name in reasons["migrations"]


async def test_two_files_of_one_number_are_refused(direct: Direct) -> None:
    files = {"0001_a.sql": "SELECT 1", "01_b.sql": "SELECT 1"}
    reasons = await direct.check(KIND, {"databaseId": "db", "migrations": files})
    assert "have the same number" in reasons["migrations"]


def test_statements_end_where_sqlite_says_so() -> None:
    sql = "SELECT ';'; -- a; comment\n" + TRIGGER + "/* the end; */"
    statements = list(statements_of(sql))
    assert len(statements) == 4
    assert statements[0] == "SELECT ';';"
    assert statements[-1].endswith("END;")
