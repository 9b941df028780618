"""What `cfrag doctor` says of a stack that is deployed, and of machines and accounts that are not ready."""

import json
import shutil
import subprocess
from datetime import date
from pathlib import Path

import pytest

from cfrag import doctor
from cfrag.doctor import Finding, Settings, compatibility
from cfrag.doctor_account import limit
from cfrag.doctor_cmd import examine
from cfrag.pulumi_run import PulumiStack
from infra.catalog import D1_DATABASES, D1_DATABASES_FREE
from tests.deployed import Deployed

Checks = dict[str, dict[str, str]]


def checks(done: "subprocess.CompletedProcess[str]") -> Checks:
    return {each["check"]: each for each in json.loads(done.stdout)["checks"]}


def test_a_deployed_stack_is_found_in_order_and_its_names_are_its_own(deployed: Deployed) -> None:
    done = deployed.cfrag("doctor", "--json")
    found = checks(done)
    assert done.returncode == 0, done.stdout
    assert {each["status"] for each in found.values()} <= {"ok", "warning"}
    assert found["token"]["detail"] == "active"
    names = [each for check, each in found.items() if check.startswith("name ")]
    assert len(names) == 5
    assert {each["detail"] for each in names} == {"of this stack"}
    secrets = (deployed.key, deployed.cloudflare.token)
    assert not [secret for secret in secrets if secret in done.stdout + done.stderr]


def test_names_that_another_stack_took_are_refused_with_the_way_out(
    deployed: Deployed, tmp_path: Path
) -> None:
    # The same names, but a state of its own that knows of none of them.
    settings = (deployed.home / "Pulumi.local.yaml").read_text()
    config = tmp_path / "Pulumi.local.yaml"
    config.write_text(settings)
    (tmp_path / "state").mkdir()
    variables = deployed.stack.environment | {
        "PULUMI_BACKEND_URL": (tmp_path / "state").as_uri(),
        "PULUMI_OPTION_CONFIG_FILE": str(config),
    }
    before = deployed.cfrag("doctor", "--json", **variables)
    assert "pulumi stack init local" in checks(before)["stack"]["fix"]
    assert checks(before)["account"]["status"] == "skipped"

    _forget_everything(deployed.home / "pulumi/state", tmp_path / "state")
    done = deployed.cfrag("doctor", "--json", **variables)
    names = {check: each for check, each in checks(done).items() if check.startswith("name ")}
    index = next(each for check, each in names.items() if check.endswith("-768-g1"))
    assert done.returncode == 1
    # The index says whose it is; database, queues and Worker are known by the state alone.
    assert index["status"] == "ok"
    assert [each["status"] for each in names.values()].count("failed") == 4
    assert "cf-rag:rag.name" in names["name pydocs-local-db"]["fix"]


def _forget_everything(state: Path, copy: Path) -> None:
    """A backend with the same stack, in whose state there is nothing."""
    shutil.copytree(state, copy, dirs_exist_ok=True)
    file = copy / ".pulumi/stacks/cf-rag/local.json"
    kept = json.loads(file.read_text())
    kept["checkpoint"]["latest"]["resources"] = []
    file.write_text(json.dumps(kept))


def test_a_wrong_token_is_one_failed_check_that_says_where_to_get_another(deployed: Deployed) -> None:
    wrong = "x" * 40
    settings = deployed.home / "wrong" / "Pulumi.local.yaml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text((deployed.home / "Pulumi.local.yaml").read_text())
    variables = deployed.stack.environment | {"PULUMI_OPTION_CONFIG_FILE": str(settings)}
    subprocess.run(
        ["pulumi", "config", "set", "--secret", "cloudflare:apiToken", wrong, "--stack", "local"],
        env=variables,
        check=True,
        capture_output=True,
    )
    done = deployed.cfrag("doctor", "--json", **variables)
    token = checks(done)["token"]
    assert (done.returncode, token["status"]) == (1, "failed")
    assert "docs/deploy.md" in token["fix"]
    assert wrong not in done.stdout + done.stderr


def test_a_stack_without_settings_is_told_which_ones_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///nowhere/at/all")
    found = {each.check: each for each in examine("no-such-stack")}
    assert found["config"].status == "failed"
    assert "prod" in found["config"].detail
    assert found["backend"].status == "failed"
    assert found["account"].status == "skipped"


@pytest.mark.parametrize(
    ("wanted", "today", "status"),
    [
        (date(2026, 9, 8), date(2026, 11, 30), "ok"),
        (date(2026, 12, 1), date(2026, 11, 30), "failed"),
        (date(2026, 9, 7), date(2026, 11, 30), "failed"),
    ],
)
def test_a_compatibility_date_is_neither_in_the_future_nor_before_python_3_14(
    wanted: date, today: date, status: str
) -> None:
    assert compatibility(wanted, today).status == status


@pytest.mark.parametrize(("there", "status"), [(9, "ok"), (10, "warning"), (50_000, "failed")])
def test_a_database_too_many_is_a_warning_on_free_and_a_failure_on_paid(there: int, status: str) -> None:
    found = limit("limit databases", there, 1, D1_DATABASES_FREE, D1_DATABASES)
    assert found.status == status


def test_an_old_cli_is_refused_with_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(PulumiStack):
        def run(self, *arguments: str, stack: bool = True) -> "subprocess.CompletedProcess[str]":
            said = "v3.100.0\n" if arguments[0] == "version" else "[]"
            return subprocess.CompletedProcess(arguments, 0, said, "")

    found = {each.check: each for each in doctor.machine(Old("prod"))}
    assert found["pulumi"] == Finding("pulumi", "failed", "3.100.0; at least 3.272.0", "make setup")
    assert found["cloudflare plugin"].status in ("warning", "failed")


def test_a_secret_in_clear_and_a_short_one_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(PulumiStack("prod"))
    values = {"cf-rag:accountId": "a", "cloudflare:apiToken": "t" * 40, "cf-rag:internalApiSecret": "short"}
    monkeypatch.setattr(PulumiStack, "run", _answering(values))
    found = {each.check: each for each in doctor.state(settings)}
    assert found["cf-rag:accountId"].status == "ok"
    assert "in clear" in found["cloudflare:apiToken"].detail
    assert "5 bytes" in found["cf-rag:internalApiSecret"].detail


def _answering(values: dict[str, str]) -> object:
    def run(self: PulumiStack, *arguments: str, stack: bool = True) -> "subprocess.CompletedProcess[str]":
        if arguments[0] == "whoami":
            return subprocess.CompletedProcess(arguments, 0, '{"url": "s3://user:word@bucket"}', "")
        secret = {"cf-rag:internalApiSecret"}
        shown = {key: {"value": value, "secret": key in secret} for key, value in values.items()}
        return subprocess.CompletedProcess(arguments, 0, json.dumps(shown), "")

    return run


def test_a_password_in_the_backends_address_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PulumiStack, "run", _answering({}))
    backend = next(doctor.state(Settings(PulumiStack("prod"))))
    assert backend == Finding("backend", "ok", "s3://bucket")
