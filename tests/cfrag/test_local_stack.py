import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
import yaml

from cfrag.errors import DemoFailed, Unreachable
from cfrag.file_backend import mend
from cfrag.local_stack import LocalStack, with_salt
from cfrag.pulumi_env import LocalApi, pulumi_env

API = LocalApi("http://127.0.0.1:1/client/v4", "t" * 40, "a" * 32)
URL = "http://127.0.0.1:20000"


@pytest.fixture
def stack(tmp_path: Path) -> LocalStack:
    return LocalStack(tmp_path, pulumi_env(tmp_path, API))


def configure(stack: LocalStack) -> None:
    stack.configure(api_token=API.token, account_id=API.account_id, url=URL)


def test_the_real_cli_keeps_the_secrets_of_the_stack_encrypted(stack: LocalStack) -> None:
    stack.create()
    configure(stack)
    written = stack.config_path.read_text()
    assert API.token not in written
    assert stack.internal_secret not in written
    config = yaml.safe_load(written)["config"]
    assert config["cf-rag:accountId"] == API.account_id
    assert config["cf-rag:url"] == URL
    assert stack.run("config", "get", "cf-rag:internalApiSecret").strip() == stack.internal_secret


def test_doing_it_again_changes_nothing(stack: LocalStack) -> None:
    stack.create()
    configure(stack)
    before = stack.config_path.read_text()
    stack.create()
    configure(stack)
    assert stack.config_path.read_text() == before


def test_a_persons_changes_to_the_config_stay(stack: LocalStack) -> None:
    stack.create()
    stack.config_path.write_text(stack.config_path.read_text().replace("name: pydocs", "name: mine"))
    stack.create()
    configure(stack)
    assert stack.worker_name == "mine-local-worker"


def test_a_lost_config_file_is_named_with_the_way_out(stack: LocalStack) -> None:
    stack.create()
    stack.config_path.unlink()
    with pytest.raises(DemoFailed, match=r"Pulumi.local.yaml is gone, .*start anew: make stop"):
        stack.create()


def test_a_config_file_left_of_an_older_stack_is_used_without_its_secrets(
    stack: LocalStack, tmp_path: Path
) -> None:
    stack.create()
    configure(stack)
    other_home = tmp_path / "other"
    other_home.mkdir()
    other = LocalStack(other_home, pulumi_env(other_home, API))
    other.config_path.write_text(stack.config_path.read_text().replace("name: pydocs", "name: mine"))
    other.create()
    configure(other)
    assert other.worker_name == "mine-local-worker"
    assert other.run("config", "get", "cf-rag:internalApiSecret").strip() == other.internal_secret


def lock(stack: LocalStack, pid: int) -> Path:
    """The lock that a `pulumi up` of process `pid` on this machine holds."""
    folder = stack.home / "pulumi/state/.pulumi/locks/organization/cf-rag/local"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "7a0f4a2b-0000-4000-8000-000000000000.json"
    held = {
        "pid": pid,
        "username": "me",
        "hostname": socket.gethostname(),
        "timestamp": "2026-11-30T12:00:00Z",
    }
    file.write_text(json.dumps(held))
    return file


def test_the_lock_of_a_killed_up_is_released_and_that_of_a_running_one_is_not(stack: LocalStack) -> None:
    stack.create()
    configure(stack)
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead = lock(stack, ended.pid)
    with pytest.raises(DemoFailed, match="pulumi up failed"):
        stack.up()  # no Cloudflare answers at the address of this test
    assert not dead.exists()
    shutil.rmtree(dead.parent)
    living = lock(stack, os.getpid())
    stack.patience = 1
    with pytest.raises(DemoFailed, match=f"process {os.getpid()} still works on the stack local"):
        stack.up()
    assert living.exists()


def test_a_state_whose_writing_was_cut_short_is_as_it_was_before(stack: LocalStack) -> None:
    stack.create()
    (state,) = (stack.home / "pulumi/state").rglob("local.json")
    before, backup = state.read_bytes(), state.with_name("local.json.bak")
    backup.write_bytes(before)
    for cut in (b"", before[: len(before) // 2]):
        state.write_bytes(cut)
        stack.create()
        assert state.read_bytes() == before
    about = state.with_name("local.json.attrs")
    assert json.loads(about.read_bytes())
    about.write_bytes(b"")
    stack.create()
    assert json.loads(stack.run("stack", "export"))["deployment"]
    # Half a backup is none: nothing is put in the place of a state that a person may still mend.
    state.write_bytes(b"{")
    backup.write_bytes(b"")
    mend(state)
    assert state.read_bytes() == b"{"


def test_without_a_cli_the_command_that_gets_one_is_named(stack: LocalStack) -> None:
    stack.environment["PATH"] = "/nowhere"
    with pytest.raises(Unreachable, match="run: make setup"):
        stack.create()


def test_a_new_config_keeps_what_the_template_explains() -> None:
    assert with_salt("# why\nconfig: {}\n", "v1:x") == "encryptionsalt: v1:x\n# why\nconfig: {}\n"
