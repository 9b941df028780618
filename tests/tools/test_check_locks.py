import json
import shutil
from pathlib import Path

import pytest

from tools.check_locks import GO_SUMS, NODE_LOCK, PYTHON_LOCKS, ROOT, problems


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of everything that is checked, to spoil."""
    for name in (*PYTHON_LOCKS, *GO_SUMS, NODE_LOCK, "pyproject.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_the_locks_of_this_project_are_in_order() -> None:
    assert list(problems()) == []


@pytest.mark.parametrize("name", PYTHON_LOCKS)
def test_a_host_in_a_lock_is_found(copy: Path, name: str) -> None:
    lock = copy / name
    lock.write_text("--index-url https://packages.example/simple\n" + lock.read_text())
    assert list(problems(copy)) == [f"{name} names a host; make it with `make lock`"]


def test_a_pin_without_a_hash_is_found(copy: Path) -> None:
    lock = copy / "tools/bootstrap.lock"
    lock.write_text(lock.read_text() + "unhashed==1.0\n")
    assert list(problems(copy)) == ["tools/bootstrap.lock: unhashed==1.0 has no hash"]


def test_a_dependency_that_the_lock_lacks_is_found(copy: Path) -> None:
    project = copy / "pyproject.toml"
    project.write_text(project.read_text().replace('"httpx>=0.28"', '"httpx>=99"'))
    assert any("pyproject.toml wants httpx>=99" in line for line in problems(copy))


def test_a_host_in_the_node_lock_is_found(copy: Path) -> None:
    lock = json.loads((copy / NODE_LOCK).read_text())
    lock["packages"]["node_modules/x"] = {
        "resolved": "https://packages.example/x.tgz",
        "integrity": "sha512-x",
    }
    (copy / NODE_LOCK).write_text(json.dumps(lock))
    assert [line for line in problems(copy) if "node_modules/x" in line] == [
        "package-lock.json: node_modules/x names a host; "
        ".npmrc must have omit-lockfile-registry-resolved=true"
    ]
