"""The SQL of the Worker."""

import ast
import re

import pytest

from infra import catalog
from infra.bundle import migrations
from infra.bundle.statements import STATEMENTS
from infra.bundle.templates import own_modules
from infra.config import RagConfig

_SQL = re.compile(r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s.+\sSET|DELETE\s+FROM|CREATE\s+TABLE)\b", re.S)


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_a_statement_fits_the_migrated_database_and_d1s_limits(name: str) -> None:
    sql = STATEMENTS[name]
    numbers = {int(number) for number in re.findall(r"\?(\d+)", sql)}
    assert numbers == set(range(1, len(numbers) + 1))
    assert len(numbers) <= catalog.D1_PARAMS.value
    assert len(sql.encode()) <= catalog.D1_SQL_BYTES.value
    assert ":" not in re.sub(r"'[^']*'", "", sql), "a named parameter was left"
    database = migrations.applied(migrations.files())
    database.execute(f"EXPLAIN {sql}", ["[]"] * len(numbers)).fetchall()


def test_looking_at_the_state_reads_indexes_and_not_all_documents() -> None:
    database = migrations.applied(migrations.files())
    plan = database.execute(f"EXPLAIN QUERY PLAN {STATEMENTS['state']}", [0, "s"]).fetchall()
    steps = [row[3] for row in plan if "documents" in row[3]]
    assert steps
    assert all(step.startswith("SEARCH documents USING") for step in steps), steps


def test_nobody_writes_sql_in_the_worker() -> None:
    found = {
        each.name
        for each in own_modules(RagConfig.from_pulumi({"name": "core"}))
        if each.name.endswith(".py") and any(map(_SQL.search, _strings(each.content)))
    }
    assert found == {"rag/statements.py"}


def _strings(source: bytes) -> list[str]:
    """All literals of a module that are no docstrings."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings)
    return [node.value for node in texts if isinstance(node.value, str)]
