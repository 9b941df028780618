"""Calls between Workers: named Python entrypoints from JavaScript and from Python."""

import pytest

from tests.workerd.support import BUNDLES, Cell, Json, Shop, StartCell


def test_javascript_gets_plain_objects(cell: Cell) -> None:
    assert cell.get("caller", "/search") == {
        "hits": [{"query": "from JavaScript", "none": None}],
        "topK": 3,
        "extra": [1, None],
    }


def test_python_gets_plain_objects(cell: Cell) -> None:
    assert cell.get("neighbour", "/") == {
        "found": {"hits": [{"query": "from Python", "none": None}], "topK": 2, "extra": [1, None]},
        "version": "plain",
    }


def test_method_that_is_not_a_coroutine_can_be_called(cell: Cell) -> None:
    assert cell.get("caller", "/version") == "plain"


@pytest.mark.parametrize("caller", ["caller", "neighbour"])
def test_default_entrypoint_is_fetched(cell: Cell, caller: str) -> None:
    assert cell.get(caller, "/fetch") == {"ok": True}


def test_exception_reaches_the_caller_and_the_log(cell: Cell) -> None:
    assert "ValueError: the method fails" in cell.get("caller", "/fails")["error"]
    assert cell.logged("ValueError: the method fails")["worker"] == "probe"


def test_missing_method_is_named(cell: Cell) -> None:
    assert "Method missing does not exist" in cell.get("caller", "/missing")["error"]


def test_worker_without_a_port_is_reached_through_its_binding(start_cell: StartCell, shop: Shop) -> None:
    name: list[Json] = [{"type": "plain_text", "name": "NAME", "text": "the hidden one"}]
    other: list[Json] = [{"type": "service", "name": "OTHER", "service": "hidden"}]
    hidden = shop.javascript("hidden", BUNDLES / "caller", name) | {"port": 0}
    cell = start_cell(hidden, shop.javascript("front", BUNDLES / "caller", other))
    assert cell.get("front", "/ask") == "the hidden one"
