"""Keys from the command line: made through the Worker and through D1, used, listed, revoked, never kept."""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from cfrag.main import main
from cfrag.pulumi_env import ROOT
from tests.cfrag.conftest import Answer, ScriptedService
from tests.deployed import Deployed

KEY = re.compile(r"pi_[A-Za-z0-9_-]{43}\n")
THROUGH = [(), ("--d1", "--stack", "local")]
Output = pytest.CaptureFixture[str]


def mint(deployed: Deployed, *arguments: str) -> dict[str, Any]:
    done = deployed.cfrag("keys", "mint", "--name", "test", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    minted: dict[str, Any] = json.loads(done.stdout)
    return minted


def listed(deployed: Deployed) -> dict[str, dict[str, Any]]:
    done = deployed.cfrag("keys", "list", "--json")
    assert done.returncode == 0, done.stderr
    return {key["id"]: key for key in json.loads(done.stdout)["keys"]}


def status(deployed: Deployed, method: str, path: str, key: str) -> int:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.request(method, deployed.url + path, headers=headers).status_code


@pytest.mark.parametrize("through", THROUGH)
def test_a_key_opens_what_its_scopes_say_and_is_listed_without_its_text(
    deployed: Deployed, through: tuple[str, ...]
) -> None:
    minted = mint(deployed, *through, "--expires", "90d")
    assert status(deployed, "GET", "/v1/stats", minted["key"]) == 200
    assert status(deployed, "DELETE", "/v1/docs/none-such", minted["key"]) == 403
    shown = listed(deployed)[minted["id"]]
    assert shown["scopes"] == minted["scopes"] == ["read"]
    assert shown["expiresAt"][:16] == minted["expiresAt"][:16]
    assert "key" not in shown
    assert "hash" not in shown


def test_a_key_made_through_d1_is_stored_as_its_sha256_alone(deployed: Deployed) -> None:
    minted = mint(deployed, *THROUGH[1], "--scope", "read", "--scope", "write")
    assert status(deployed, "DELETE", "/v1/docs/none-such", minted["key"]) == 200
    database = deployed.stack.outputs()["databaseId"]
    api = deployed.cloudflare.api
    answer = httpx.post(
        f"{api.base_url}/accounts/{api.account_id}/d1/database/{database}/query",
        json={"sql": "SELECT * FROM api_keys WHERE id = ?1", "params": [minted["id"]]},
        headers={"authorization": f"Bearer {api.token}"},
    )
    (row,) = answer.json()["result"][0]["results"]
    assert row["hash"] == hashlib.sha256(minted["key"].encode()).hexdigest()
    assert minted["key"] not in answer.text
    assert row["expires_at"] is None
    assert isinstance(row["created_at"], int)


def test_a_revoked_key_opens_nothing_and_revoking_it_again_changes_nothing(deployed: Deployed) -> None:
    minted = mint(deployed)
    first = json.loads(deployed.cfrag("keys", "revoke", minted["id"], "--json").stdout)
    assert status(deployed, "GET", "/v1/stats", minted["key"]) == 401
    assert json.loads(deployed.cfrag("keys", "revoke", minted["id"], "--json").stdout) == first
    assert listed(deployed)[minted["id"]]["revokedAt"] == first["revokedAt"]


def test_only_the_key_is_on_standard_output(deployed: Deployed) -> None:
    done = deployed.cfrag("keys", "mint", "--name", "for a pipe")
    assert KEY.fullmatch(done.stdout)
    assert "for a pipe" in done.stderr
    assert done.stdout.strip() not in done.stderr


def command_lines() -> list[bytes]:
    """Those of all processes, as `ps` would show them."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(file.read_bytes())
        except OSError:
            continue
    return found


def test_no_key_is_ever_in_a_command_line_a_file_or_a_log(deployed: Deployed) -> None:
    command = [sys.executable, "-m", "cfrag", "keys", "mint", "--name", "secret", *THROUGH[1]]
    running = subprocess.Popen(
        command, cwd=ROOT, env=deployed.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    seen: list[bytes] = []
    while running.poll() is None:
        seen += command_lines()
        time.sleep(0.02)
    key, _ = running.communicate()
    key = key.strip()
    assert KEY.fullmatch(key + "\n")
    through_worker = mint(deployed)["key"]
    smoke = deployed.cfrag("smoke", "--key", "-", "--json", stdin=mint(deployed, "--scope", "write")["key"])
    assert smoke.stdout
    assert seen
    for secret in (key.encode(), deployed.key.encode(), deployed.cloudflare.token.encode()):
        assert not any(secret in line for line in seen)
    files = [file for file in deployed.home.rglob("*") if file.is_file() and "cache" not in file.parts]
    assert any(file.suffix == ".log" for file in files)
    for file in files:
        content = file.read_bytes()
        assert key.encode() not in content, file
        assert through_worker.encode() not in content, file
        if file.suffix == ".log":
            assert deployed.key.encode() not in content, file


def test_the_internal_secret_comes_from_its_own_variable_first(
    as_user: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CFRAG_SECRET", "s" * 64)
    as_user.answer(Answer(body={"keys": []}))
    assert main(["keys", "list"]) == 0
    assert as_user.calls[0].headers["authorization"] == f"Bearer {'s' * 64}"


def test_an_api_key_is_not_sent_as_the_internal_secret(
    as_user: ScriptedService, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv("CFRAG_KEY", "pi_" + "k" * 43)
    assert main(["keys", "list"]) == 2
    assert "set CFRAG_SECRET to the internal secret" in capsys.readouterr().err
    assert as_user.calls == []


def test_a_key_is_asked_for_once_since_a_second_try_could_make_a_second_one(as_user: ScriptedService) -> None:
    as_user.answer(Answer(503, {"title": "busy"}, {"retry-after": "0"}))
    assert main(["keys", "mint", "--name", "x"]) == 3
    assert len(as_user.calls) == 1


@pytest.mark.parametrize("code", [401, 403])
def test_a_refusal_says_which_secret_is_wanted(as_user: ScriptedService, capsys: Output, code: int) -> None:
    as_user.answer(Answer(code, {"title": "No"}))
    assert main(["keys", "mint", "--name", "x"]) == 4
    assert "set CFRAG_SECRET" in capsys.readouterr().err


def test_a_key_is_no_id_and_is_not_repeated(as_user: ScriptedService, capsys: Output) -> None:
    key = "pi_" + "k" * 43
    assert main(["keys", "revoke", key]) == 2
    assert key not in capsys.readouterr().err
    assert as_user.calls == []


def test_d1_needs_a_stack_and_a_stack_that_takes_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.delenv("PULUMI_STACK", raising=False)
    monkeypatch.setenv("CFRAG_HOME", str(tmp_path))
    assert main(["keys", "mint", "--name", "x", "--d1"]) == 2
    assert "add --stack NAME" in capsys.readouterr().err
    config = {"name": "docs", "embedding": {"model": "@cf/baai/bge-m3"}, "auth": {"mode": "secret"}}
    (tmp_path / "Pulumi.local.yaml").write_text(json.dumps({"config": {"cf-rag:rag": config}}))
    assert main(["keys", "mint", "--name", "x", "--d1", "-s", "local"]) == 2
    assert 'its config says auth.mode "secret"' in capsys.readouterr().err


def test_d1_without_an_account_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    for name in [name for name in os.environ if name.startswith("CLOUDFLARE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("CFRAG_HOME", str(tmp_path))
    config = {"name": "docs", "embedding": {"model": "@cf/baai/bge-m3"}}
    (tmp_path / "Pulumi.local.yaml").write_text(json.dumps({"config": {"cf-rag:rag": config}}))
    assert main(["keys", "mint", "--name", "x", "--d1", "-s", "local"]) == 2
    assert "CLOUDFLARE_" in capsys.readouterr().err
