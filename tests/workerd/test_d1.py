"""D1 through a Worker's binding and through the control API: one database, real limits."""

from typing import Any

from tests.workerd.support import (
    BUNDLES,
    DATABASE,
    OTHER_DATABASE,
    Api,
    Cell,
    Json,
    Shop,
    StartCell,
    shared_bindings,
)


def query(cell: Cell, sql: str, *params: Any) -> Any:
    return cell.post("probe", "/sql", {"sql": sql, "params": list(params)})


def test_null_comes_in_and_out_as_none(cell: Cell) -> None:
    assert query(cell, "SELECT ? AS a, ? AS b, ? AS c, NULL AS d", None, "ä", 1.5)["results"] == [
        {"a": None, "b": "ä", "c": 1.5, "d": None}
    ]


def test_a_hundred_parameters_are_bound_and_one_more_is_refused(cell: Cell) -> None:
    marks = ",".join("?" * 100)
    assert query(cell, f"SELECT 100 IN ({marks}) AS found", *range(1, 101))["results"] == [{"found": 1}]
    refused = query(cell, f"SELECT 1 IN ({marks},?) AS found", *range(101))
    assert "too many SQL variables" in refused["error"]


def test_statement_over_a_hundred_thousand_bytes_is_refused(cell: Cell) -> None:
    longest = "SELECT 1 AS one --".ljust(100_000, "x")
    assert query(cell, longest)["results"] == [{"one": 1}]
    assert "statement too long" in query(cell, longest + "x")["error"]


def test_error_is_worded_as_d1_words_it(cell: Cell) -> None:
    assert query(cell, "SELECT * FROM nowhere")["error"].endswith(
        "D1_ERROR: no such table: nowhere: SQLITE_ERROR"
    )


def test_batch_is_one_transaction(cell: Cell) -> None:
    failed = cell.post(
        "probe", "/batch", ["INSERT INTO shared (note) VALUES ('half')", "INSERT INTO nowhere VALUES (1)"]
    )
    assert "no such table: nowhere" in failed["error"]
    assert cell.sql("SELECT * FROM shared WHERE note = 'half'") == []


def test_workers_bound_to_one_id_share_the_database(cell: Cell) -> None:
    before = cell.get("caller", "/count")["n"]
    assert cell.get("neighbour", "/insert") == "inserted"
    assert cell.get("caller", "/count")["n"] == before + 1
    assert {"note": "from the neighbour"} in query(cell, "SELECT note FROM shared")["results"]


def control(cell: Cell, database: str, *statements: Json) -> Any:
    return cell.control("POST", f"/d1/{database}", {"statements": list(statements)})


def test_control_answers_results_with_their_meta(cell: Cell) -> None:
    insert = {"sql": "INSERT INTO shared (note, size) VALUES (?, ?), (NULL, 2)", "params": ["a", 0.5]}
    first, second = control(cell, DATABASE, insert, {"sql": "SELECT note FROM shared"}).json()["results"]
    assert (first["success"], first["results"]) == (True, [])
    assert (first["meta"]["changes"], first["meta"]["rows_written"], first["meta"]["changed_db"]) == (
        2,
        2,
        True,
    )
    assert {"note": None} in second["results"]
    assert second["meta"]["changes"] == 0
    assert second["meta"]["rows_read"] >= 2


def test_control_runs_all_statements_or_none(cell: Cell) -> None:
    refused = control(
        cell, DATABASE, {"sql": "INSERT INTO shared (note) VALUES ('none')"}, {"sql": "SELEC 1"}
    )
    assert refused.status_code == 400
    assert 'near "SELEC": syntax error' in refused.json()["error"]["message"]
    assert cell.sql("SELECT * FROM shared WHERE note = 'none'") == []


def test_control_refuses_what_the_binding_refuses(cell: Cell) -> None:
    marks = ",".join("?" * 101)
    refused = control(cell, DATABASE, {"sql": f"SELECT 1 IN ({marks})", "params": list(range(101))})
    assert "too many SQL variables" in refused.json()["error"]["message"]


def test_databases_are_apart(cell: Cell) -> None:
    refused = control(cell, OTHER_DATABASE, {"sql": "SELECT * FROM shared"})
    assert "no such table: shared" in refused.json()["error"]["message"]


def test_database_that_is_not_in_the_cell_is_a_404(cell: Cell) -> None:
    assert control(cell, "0c0ffee0-0000-4000-8000-00000000000f", {"sql": "SELECT 1"}).status_code == 404


def test_data_stays_without_any_worker(start_cell: StartCell) -> None:
    first = start_cell()
    first.sql("CREATE TABLE kept (a)")
    assert first.stop() == 0
    second = start_cell(d1Persist=first.config["d1Persist"])
    assert second.sql("SELECT name FROM sqlite_master WHERE name = 'kept'") == [{"name": "kept"}]


def test_faults_are_asked_for_only_when_they_are_on(cell: Cell, api: Api) -> None:
    api.answer("d1/query", {"error": {"message": "Network connection lost."}})
    assert query(cell, "SELECT 1 AS one")["results"] == [{"one": 1}]
    assert api.calls == []
    cell.control("PUT", "/d1-faults", {"enabled": True})
    try:
        assert "D1_ERROR: Network connection lost." in query(cell, "SELECT 1 AS one")["error"]
    finally:
        cell.control("PUT", "/d1-faults", {"enabled": False})
    expected = {"worker": "probe", "op": "query", "database": DATABASE, "phase": "before"}
    assert api.calls == [("d1/query", expected, "probe")]


def test_fault_after_the_call_comes_when_it_is_committed(start_cell: StartCell, shop: Shop, api: Api) -> None:
    entry = shop.javascript("faulty", BUNDLES / "caller", shared_bindings())
    cell = start_cell(entry, d1Faults=True)
    cell.sql("CREATE TABLE shared (note TEXT)")
    api.answer("d1/query", {"ok": {"after": True}})
    assert cell.get("faulty", "/insert") == [{"note": "inserted"}]
    assert [body["phase"] for body in api.bodies("d1/query")] == ["before", "after"]
