"""Which Workers share a process."""

from typing import Any

from local.cell_plan import CellPlan, plan


def worker(name: str, *databases: str, calls: tuple[str, ...] = ()) -> dict[str, Any]:
    bindings = [{"type": "d1", "name": "DB", "id": database} for database in databases]
    services = [{"type": "service", "name": "S", "service": called} for called in calls]
    return {"name": name, "bindings": [*bindings, *services, {"type": "ai", "name": "AI"}]}


def cells(*planned: CellPlan) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(cell.names, cell.databases) for cell in planned]


def test_strangers_have_processes_of_their_own() -> None:
    assert cells(*plan([worker("a", "1"), worker("b", "2")], ["1", "2"])) == [
        (("a",), ("1",)),
        (("b",), ("2",)),
    ]


def test_a_shared_database_joins() -> None:
    assert cells(*plan([worker("a", "1"), worker("b", "1")], ["1"])) == [(("a", "b"), ("1",))]


def test_a_service_binding_joins_either_way_and_over_several_steps() -> None:
    workers = [worker("a", calls=("b",)), worker("b", "1"), worker("c", "1"), worker("d", calls=("c",))]
    assert cells(*plan(workers, ["1"])) == [(("a", "b", "c", "d"), ("1",))]


def test_a_late_link_joins_two_groups() -> None:
    workers = [worker("a", "1"), worker("b", "2"), worker("c", "1", "2")]
    assert cells(*plan(workers, ["1", "2"])) == [(("a", "b", "c"), ("1", "2"))]


def test_databases_without_a_worker_share_one_process() -> None:
    assert cells(*plan([worker("a", "1")], ["3", "1", "2"])) == [(("a",), ("1",)), ((), ("2", "3"))]


def test_a_worker_bound_to_itself_stays_alone() -> None:
    assert cells(*plan([worker("a", calls=("a",)), worker("b")], [])) == [(("a",), ()), (("b",), ())]


def test_the_key_changes_with_the_content_only() -> None:
    first = plan([worker("a", "1"), worker("b", "1")], ["1"])[0]
    turned = plan([worker("b", "1"), worker("a", "1")], ["1"])[0]
    other = plan([worker("a", "1") | {"versionId": "2"}, worker("b", "1")], ["1"])[0]
    assert first.key == turned.key != other.key
