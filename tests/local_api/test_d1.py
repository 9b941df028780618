"""D1 through the official SDK: life of a database, SQL, limits, errors."""

from typing import Any

import pytest
from cloudflare import BadRequestError, NotFoundError

from tests.local_api.server import LocalServer


@pytest.fixture
def database(server: LocalServer, request: pytest.FixtureRequest) -> str:
    """A new database with a table `t(a, b)`."""
    made = server.client().d1.database.create(account_id=server.account, name=request.node.name[:60])
    assert made.uuid
    query(server, made.uuid, "create table t (a integer primary key, b text)")
    return made.uuid


def query(server: LocalServer, database: str, sql: str, params: list[Any] | None = None) -> list[Any]:
    """The rows of each statement."""
    page = server.client().d1.database.query(
        database, account_id=server.account, sql=sql, params=params or []
    )
    return [result.results for result in page.result]


def test_a_database_lives_and_dies(server: LocalServer) -> None:
    d1, account = server.client().d1.database, server.account
    made = d1.create(account_id=account, name="lives")
    assert made.uuid
    assert [found.uuid for found in d1.list(account_id=account, name="lives")] == [made.uuid]
    assert made.read_replication
    assert made.read_replication.mode == "disabled"
    changed = d1.update(made.uuid, account_id=account, read_replication={"mode": "auto"})
    assert changed.read_replication
    assert changed.read_replication.mode == "auto"
    got = d1.get(made.uuid, account_id=account)
    assert got.name == "lives"
    assert got.read_replication == changed.read_replication
    d1.delete(made.uuid, account_id=account)
    with pytest.raises(NotFoundError, match="7404"):
        d1.get(made.uuid, account_id=account)


def test_a_name_is_taken_once(server: LocalServer) -> None:
    server.client().d1.database.create(account_id=server.account, name="taken")
    with pytest.raises(BadRequestError, match="7502"):
        server.client().d1.database.create(account_id=server.account, name="taken")


def test_a_deleted_name_is_free_and_its_data_is_gone(server: LocalServer, database: str) -> None:
    query(server, database, "insert into t values (1, 'x')")
    name = server.client().d1.database.get(database, account_id=server.account).name
    server.client().d1.database.delete(database, account_id=server.account)
    again = server.client().d1.database.create(account_id=server.account, name=str(name))
    assert again.uuid
    assert query(server, again.uuid, "select name from sqlite_master where name = 't'") == [[]]


@pytest.mark.parametrize("value", [None, {}, {"mode": "sometimes"}, "disabled"])
def test_read_replication_must_be_an_object_with_a_mode(server: LocalServer, value: Any) -> None:
    answer = server.api("POST", "/d1/database", json={"name": "replicated", "read_replication": value})
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, 7400)


def test_a_query_answers_a_list_with_rows_and_meta(server: LocalServer, database: str) -> None:
    page = server.client().d1.database.query(
        database, account_id=server.account, sql="insert into t (b) values (?), (?)", params=["x", "y"]
    )
    (result,) = page.result
    assert result.success
    assert result.meta
    assert result.meta.changes == 2
    assert result.meta.last_row_id == 2
    assert query(server, database, "select * from t order by a") == [[{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]]


def test_several_statements_run_in_order_and_each_has_a_result(server: LocalServer, database: str) -> None:
    sql = "insert into t values (1, 'a;b'); -- comment; here\nselect b from t where a = ?; ;"
    assert query(server, database, sql, [1]) == [[], [{"b": "a;b"}]]


def test_statements_of_one_call_are_one_transaction(server: LocalServer, database: str) -> None:
    with pytest.raises(BadRequestError, match="UNIQUE constraint failed"):
        query(server, database, "insert into t values (1, 'x'); insert into t values (1, 'again')")
    assert query(server, database, "select count(*) as n from t") == [[{"n": 0}]]


def test_a_batch_has_parameters_of_its_own_for_each_statement(server: LocalServer, database: str) -> None:
    page = server.client().d1.database.query(
        database,
        account_id=server.account,
        batch=[
            {"sql": "insert into t values (?, ?)", "params": [7, "seven"]},  # type: ignore[list-item]
            {"sql": "select b from t where a = ?", "params": [7]},  # type: ignore[list-item]
        ],
    )
    assert [result.results for result in page.result] == [[], [{"b": "seven"}]]


def test_a_trigger_is_one_statement(server: LocalServer, database: str) -> None:
    sql = """create trigger shout after insert on t begin
      update t set b = upper(new.b) where a = new.a; -- a semicolon; in a comment
    end; insert into t values (1, 'quiet');"""
    assert len(query(server, database, sql)) == 2
    assert query(server, database, "select b from t") == [[{"b": "QUIET"}]]


def test_raw_answers_columns_and_rows(server: LocalServer, database: str) -> None:
    query(server, database, "insert into t values (1, 'x')")
    (result,) = (
        server.client().d1.database.raw(database, account_id=server.account, sql="select a, b from t").result
    )
    assert result.results
    assert (result.results.columns, result.results.rows) == (["a", "b"], [[1, "x"]])


def test_an_sql_error_says_what_sqlite_says(server: LocalServer, database: str) -> None:
    with pytest.raises(BadRequestError, match=r"7500.*no such table: nowhere"):
        query(server, database, "select * from nowhere")


def test_100_parameters_are_allowed_and_101_are_not(server: LocalServer, database: str) -> None:
    def listed(count: int) -> list[Any]:
        marks = ", ".join("?" * count)
        return query(
            server, database, f"select count(*) as n from t where a in ({marks})", list(range(count))
        )

    assert listed(100) == [[{"n": 0}]]
    with pytest.raises(BadRequestError, match="too many SQL variables"):
        listed(101)


def test_a_statement_over_100_000_bytes_is_refused(server: LocalServer, database: str) -> None:
    fits = "select 1 as one" + " " * 99_000
    assert query(server, database, fits) == [[{"one": 1}]]
    with pytest.raises(BadRequestError, match="too long"):
        query(server, database, f"select '{'x' * 100_000}'")


@pytest.mark.parametrize("body", [{}, {"sql": ""}, {"sql": "-- nothing"}, {"sql": "select 1", "params": "x"}])
def test_a_malformed_query_is_a_400(server: LocalServer, database: str, body: dict[str, Any]) -> None:
    answer = server.api("POST", f"/d1/database/{database}/query", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (400, 7400)


def test_lists_are_paged_and_end(server: LocalServer) -> None:
    made = {
        server.client().d1.database.create(account_id=server.account, name=f"page-{number}").uuid
        for number in range(5)
    }
    listed = [found.uuid for found in server.client().d1.database.list(account_id=server.account, per_page=2)]
    assert len(listed) == len(set(listed))
    assert made <= set(listed)
