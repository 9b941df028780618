"""Stacks without resources, on a backend of their own: locks, settings and what is missing."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from cfrag.errors import InputError
from cfrag.pulumi_env import pulumi_env
from cfrag.tenants.file import Account, Tenant
from cfrag.tenants.settings import Settings
from cfrag.tenants.stacks import Stacks, TenantStack
from cfrag.tenants.workspace import NoStack, StackFailed
from infra.config import RagConfig

ACCOUNT = Account("a1" * 16)
TOKEN = "a-token-of-the-tests-0123456789abcdefghijkl"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    variables = pulumi_env(tmp_path) | {"CLOUDFLARE_API_TOKEN": TOKEN}
    variables.pop("PULUMI_OPTION_CONFIG_FILE", None)
    for name in set(os.environ) - set(variables):
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


@pytest.fixture
def stacks(tmp_path: Path, environment: Mapping[str, str]) -> Stacks:
    return Stacks(tmp_path / "tenants")


@pytest.fixture
def acme(stacks: Stacks) -> TenantStack:
    """A stack with nothing in it."""
    stacks.workspace({}).create_stack("acme")
    return stacks.of("acme", ACCOUNT)


def locked_by(tmp_path: Path, host: str, pid: int) -> Path:
    lock = tmp_path / "pulumi/state/.pulumi/locks/organization/cf-rag/acme/of-the-test.json"
    lock.parent.mkdir(parents=True, exist_ok=True)
    content = {"pid": pid, "username": "somebody", "hostname": host, "timestamp": "2026-11-30T00:00:00Z"}
    lock.write_text(json.dumps(content))
    return lock


def a_dead_pid() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def test_the_lock_of_a_killed_pulumi_is_taken_away(tmp_path: Path, acme: TenantStack, stacks: Stacks) -> None:
    lock = locked_by(tmp_path, socket.gethostname(), a_dead_pid())
    acme.destroy(lambda _: None)
    assert not lock.exists()
    assert "acme" not in stacks.existing()


def test_a_lock_hides_no_stack_whose_settings_are_gone(
    tmp_path: Path, acme: TenantStack, stacks: Stacks
) -> None:
    lock = locked_by(tmp_path, socket.gethostname(), a_dead_pid())
    settings = Settings("acme", stacks.workspace(acme.credentials()))
    settings.remove()
    settings.configure(Tenant("acme", ACCOUNT, RagConfig(name="rag"), {"name": "rag"}))
    assert settings.path.exists()
    assert lock.exists()


def test_the_lock_of_another_machine_is_left_and_its_holder_named(tmp_path: Path, acme: TenantStack) -> None:
    lock = locked_by(tmp_path, "elsewhere", 7)
    with pytest.raises(StackFailed, match=r"locked by somebody@elsewhere \(process 7\)"):
        acme.destroy(lambda _: None)
    assert lock.exists()


def test_a_living_pulumi_is_waited_for(tmp_path: Path, acme: TenantStack) -> None:
    lock = locked_by(tmp_path, socket.gethostname(), os.getpid())
    told: list[str] = []

    def progress(words: str) -> None:
        told.append(words)
        lock.unlink(missing_ok=True)  # it has ended

    acme.destroy(progress)
    assert told == [f"waiting for process {os.getpid()}, which works on it"]


def test_what_has_no_stack_is_told_so(stacks: Stacks) -> None:
    for act in (
        lambda: stacks.of("nobody", ACCOUNT).destroy(lambda _: None),
        stacks.of("nobody", ACCOUNT).outputs,
    ):
        with pytest.raises(NoStack):
            act()


def test_a_token_that_is_not_there_is_named(stacks: Stacks) -> None:
    with pytest.raises(InputError, match="EU_TOKEN is not set"):
        stacks.of("acme", Account("a1" * 16, "EU_TOKEN"))


def test_each_backend_has_settings_of_its_own(
    tmp_path: Path, stacks: Stacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("PULUMI_BACKEND_URL", (tmp_path / "other").as_uri())
    assert Stacks(tmp_path / "tenants").folder != stacks.folder
