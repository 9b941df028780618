"""The commands, as far as they need no stack of their own."""

import json
from pathlib import Path

import pytest

from cfrag.errors import Exit
from cfrag.main import main
from tests.deployed import Deployed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tenants.yaml"
    path.write_text("defaults: {config: {name: rag}}\ntenants: {acme: , globex: }")
    return path


def test_local_means_the_cloudflare_and_the_backend_of_this_machine(deployed: Deployed, file: Path) -> None:
    done = deployed.cfrag("tenants", "status", "--local", "--json", "--file", str(file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["tenants"]
    # The stack of the demo lives in the same backend, and is no tenant.
    assert [(row["tenant"], row["state"]) for row in rows] == [("acme", "no stack"), ("globex", "no stack")]


def test_a_stack_of_the_project_is_never_destroyed_as_a_tenant(deployed: Deployed, file: Path) -> None:
    done = deployed.cfrag("tenants", "destroy", "--local", "--yes", "--only", "local", "--file", str(file))
    assert done.returncode == Exit.BAD_INPUT
    assert "local is a stack of the project, not a tenant" in done.stderr


def test_a_plan_of_a_tenant_without_a_stack_leaves_none_behind(deployed: Deployed, file: Path) -> None:
    shared = ("--local", "--json", "--file", str(file))
    done = deployed.cfrag("tenants", "plan", "--only", "acme", *shared)
    assert done.returncode == 0, done.stderr
    (planned,) = json.loads(done.stdout)["tenants"]
    assert planned["status"] == "planned"
    assert planned["changes"].keys() == {"create"}
    rows = json.loads(deployed.cfrag("tenants", "status", *shared).stdout)["tenants"]
    assert {row["state"] for row in rows} == {"no stack"}


def test_a_file_with_a_fault_is_one_line_and_exit_code_2(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDFLARE_ACCOUNT_ID", "a1" * 16)
    file.write_text("tenants: {acme: {konfig: {}}}")
    assert main(["tenants", "up", "--file", str(file)]) == Exit.BAD_INPUT
    assert "tenants.acme.konfig: unknown key; did you mean config?" in capsys.readouterr().err


def test_the_schema_is_printed_for_editors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tenants", "schema"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["title"] == "cfrag tenants"
