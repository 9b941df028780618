"""Fixtures: the API behind bindings, bundles, and cells of Workers."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from infra.bundle.manifest import Module
from tests.workerd.support import (
    DATABASE,
    OTHER_DATABASE,
    SDK,
    TOKEN,
    Api,
    Cell,
    Json,
    Shop,
    StartCell,
    callers,
    launch,
    packages,
    probe,
)


@pytest.fixture(scope="session")
def sdk() -> tuple[Module, ...]:
    """The Workers runtime SDK as it is vendored: all that a small Python Worker needs."""
    return tuple(module for module in packages() if module.name.startswith(SDK))


@pytest.fixture(scope="session")
def api() -> Iterator[Api]:
    stub = Api()
    yield stub
    stub.server.shutdown()
    stub.server.server_close()


@pytest.fixture(scope="session")
def start_cell(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartCell]:
    """Start a cell of the given Workers; stopped with the last test, if not before."""
    cells: list[Cell] = []

    def start(*workers: Json, databases: tuple[str, ...] = (DATABASE,), **more: Any) -> Cell:
        folder = tmp_path_factory.mktemp("cell")
        config = {
            "token": TOKEN,
            "bindingsUrl": api.url,
            "d1Persist": str(folder / "d1"),
            "databases": list(databases),
            "controlPort": 0,
            "workers": list(workers),
        } | more
        file = folder / "cell.json"
        file.write_text(json.dumps(config))
        cell = launch(file, config)
        cells.append(cell)
        cell.wait_ready()
        return cell

    yield start
    for cell in cells:
        cell.close()


@pytest.fixture(scope="session")
def shop(sdk: tuple[Module, ...], tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("bundles"), sdk)


@pytest.fixture(scope="session")
def cell(start_cell: StartCell, shop: Shop) -> Cell:
    """The probe with its two callers, and the tables that they use."""
    cell = start_cell(probe(shop), *callers(shop), databases=(DATABASE, OTHER_DATABASE))
    cell.sql("CREATE TABLE shared (id INTEGER PRIMARY KEY, note TEXT, size REAL)")
    cell.sql("CREATE TABLE later (key TEXT)")
    return cell
