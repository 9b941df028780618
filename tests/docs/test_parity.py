"""`docs/parity.md` names tests that exist, and one that runs the rendered bundle in workerd in every row."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from cfrag.pulumi_env import ROOT

PAGE = ROOT / "docs/parity.md"
# Fixtures that deploy the rendered bundle: the demo's stack, a Worker of its own, a checkout's `pulumi up`.
WORKERD = {"deployed", "deployment", "new_checkout"}
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
Functions = dict[str, set[str]]


def rows() -> list[tuple[str, str]]:
    """Of every table: what a row is about, and its proof."""
    cells = [
        line.strip().strip("|").split(" | ") for line in PAGE.read_text().splitlines() if line[:2] == "| "
    ]
    body = [row for row in cells if row[0].strip() not in ("there", "---")]
    assert {len(row) for row in body} == {3}
    return [(row[0].strip(), row[2]) for row in body]


@pytest.mark.parametrize(("about", "proof"), rows())
def test_every_test_of_a_row_exists_and_the_first_runs_the_bundle_in_workerd(about: str, proof: str) -> None:
    named = _TEST.findall(proof)
    assert ", ".join(f"`{file}::{test}`" for file, test in named) == proof.strip(), "nothing but tests"
    for file, test in named:
        assert test in functions(ROOT / file), f"{file} has no {test}"
    assert needed(*named[0]) & WORKERD, f"{named[0]} runs no bundle"


def test_every_step_of_the_build_order_has_its_row() -> None:
    steps = [about.partition(".")[0] for about, _ in rows() if about[0].isdigit()]
    assert steps == [str(step) for step in range(1, 12)]


@cache
def functions(path: Path) -> Functions:
    """Tests and fixtures of a module with the fixtures that each asks for."""
    tree = ast.parse(path.read_text())
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name: {each.arg for each in node.args.args} for node in found}


def needed(file: str, test: str) -> set[str]:
    """Every fixture that a test comes to need, its own ones and those of others."""
    known: Functions = {}
    for path in _fixture_modules(ROOT / file):
        known = functions(path) | known
    seen: set[str] = set()
    waiting = [test]
    while waiting:
        for name in known.get(waiting.pop(), set()) - seen:
            seen.add(name)
            waiting.append(name)
    return seen


def _fixture_modules(path: Path) -> Iterator[Path]:
    yield path
    for folder in path.relative_to(ROOT).parents:
        if (conftest := ROOT / folder / "conftest.py").exists():
            yield conftest
