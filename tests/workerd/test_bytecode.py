"""Bytecode of one boot serves the next, and never another source."""

import time
from pathlib import Path

from tests.workerd.support import PATIENCE, Cell, Json, Shop, StartCell, probe

FRESH = "ORIGIN = {origin!r}\nCOMPILED = {now}\n"


def boot(start_cell: StartCell, entry: Json, origin: str, cache: Path) -> set[Path]:
    """Boot with a source that no earlier run has compiled; the bytecode that came of it."""
    own = Path(entry["bundleDir"]) / "notes" / "__init__.py"
    own.write_text(FRESH.format(origin=origin, now=time.time_ns()))
    before = set(cache.glob("*.pyc"))
    cell: Cell = start_cell(entry, bytecodeCache=str(cache))
    assert cell.get(entry["name"], "/runtime")["origin"] == origin
    deadline = time.monotonic() + PATIENCE
    while set(cache.glob("*.pyc")) == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert cell.stop() == 0
    return set(cache.glob("*.pyc")) - before


def test_only_a_changed_source_is_compiled_anew(start_cell: StartCell, shop: Shop, tmp_path: Path) -> None:
    entry = probe(shop, "compiled")
    assert len(boot(start_cell, entry, "first", tmp_path)) > 10
    assert len(boot(start_cell, entry, "second", tmp_path)) == 1
