import stat
from pathlib import Path

import pytest

from cfrag.pulumi_env import ROOT, LocalApi, config_file, pulumi_env, pulumi_variables, secret_file

API = LocalApi("http://127.0.0.1:1/client/v4", "t" * 40, "a" * 32)


def test_everything_that_pulumi_writes_is_in_the_home_that_was_asked_for(tmp_path: Path) -> None:
    variables = pulumi_variables(tmp_path)
    assert variables["PULUMI_HOME"].startswith(str(tmp_path))
    assert variables["PULUMI_BACKEND_URL"] == f"file://{tmp_path}/pulumi/state"
    assert Path(variables["PULUMI_HOME"]).is_dir()
    assert (tmp_path / "pulumi/state").is_dir()


def test_a_persons_own_pulumi_and_account_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PULUMI_ACCESS_TOKEN", "PULUMI_CONFIG_PASSPHRASE", "CLOUDFLARE_API_KEY", "CLOUDFLARE_EMAIL"):
        monkeypatch.setenv(name, "mine")
    monkeypatch.setenv("CLOUDFLARE_API_TOKEN", "mine")
    monkeypatch.setenv("PULUMI_HOME", "/mine")
    environment = pulumi_env(tmp_path, API)
    assert "mine" not in environment.values()
    assert environment["CLOUDFLARE_API_TOKEN"] == API.token
    assert environment["PULUMI_HOME"] != "/mine"


def test_without_an_address_no_other_account_can_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDFLARE_API_TOKEN", "mine")
    assert "CLOUDFLARE_API_TOKEN" not in pulumi_env(tmp_path)


def test_another_home_has_a_config_file_of_its_own(tmp_path: Path) -> None:
    assert config_file(ROOT / ".cfrag") == ROOT / "Pulumi.local.yaml"
    assert "PULUMI_OPTION_CONFIG_FILE" not in pulumi_variables(ROOT / ".cfrag")
    assert pulumi_variables(tmp_path)["PULUMI_OPTION_CONFIG_FILE"] == str(tmp_path / "Pulumi.local.yaml")


def test_a_secret_is_long_stays_the_same_and_is_the_owners_alone(tmp_path: Path) -> None:
    path = secret_file(tmp_path / "deep/secret")
    first = path.read_text()
    assert len(bytes.fromhex(first)) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret_file(path).read_text() == first
    assert secret_file(tmp_path / "other").read_text() != first
    assert sorted(each.name for each in path.parent.iterdir()) == ["secret"]
