"""Rotated secrets, with the real CLI and a program that deploys nothing but the secrets' names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from cfrag.pulumi_env import pulumi_env
from cfrag.tenants import file
from cfrag.tenants.fleet import Fleet, View
from cfrag.tenants.journal import Entry, Journal
from cfrag.tenants.operations import Operations
from cfrag.tenants.report import Outcome
from cfrag.tenants.rotation import rotate
from cfrag.tenants.settings import PREVIOUS, SECRET, Settings
from cfrag.tenants.stacks import Stacks

# Its one resource is called what a stack's Worker version is, and holds the secrets where that one does.
PROGRAM = """
import pulumi
given = pulumi.Config("cf-rag")
bound = {"INTERNAL_API_SECRET": {"text": given.require_secret("internalApiSecret")}}
if given.get("internalApiSecretPrevious"):
    bound["INTERNAL_API_SECRET_PREVIOUS"] = {"text": given.require_secret("internalApiSecretPrevious")}
pulumi.ComponentResource("cfrag:index:WorkerVersion", "version", {"bindings": bound})
pulumi.export("url", "https://acme.example")
"""
NAME = "acme"


class Machine:
    """A folder with a tenants file and settings of its own; machines share the backend."""

    def __init__(self, home: Path, project: Path) -> None:
        home.mkdir()
        self.tenants = file.load(project / "tenants.yaml")
        self.stacks = Stacks(home, root=project)
        self.journal = Journal(home / "journal.json")
        self.operations = Operations(self.tenants, self.stacks, self.journal, Fleet(1, View()))

    def up(self) -> Outcome:
        (outcome,) = self.operations.up(self.tenants.all).outcomes
        return outcome

    def rotate(self, step: Any) -> Outcome:
        (outcome,) = rotate(self.operations, self.tenants.all, step).outcomes
        return outcome

    @property
    def settings(self) -> Settings:
        return Settings(NAME, self.stacks.workspace({}))

    def taken(self) -> dict[str, str]:
        """The secrets that the deployed Worker takes."""
        return self.settings.deployed()


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sequence[Machine]:
    variables = pulumi_env(tmp_path) | {
        "CLOUDFLARE_API_TOKEN": "a-token-of-the-tests-0123456789abcdefghijkl",
        "CLOUDFLARE_ACCOUNT_ID": "a1" * 16,
    }
    variables.pop("PULUMI_OPTION_CONFIG_FILE", None)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    project = tmp_path / "project"
    for folder in ("infra", "worker_template", "migrations"):
        (project / folder).mkdir(parents=True)
    (project / "Pulumi.yaml").write_text("name: cf-rag\nruntime: python\n")
    (project / "__main__.py").write_text(PROGRAM)
    (project / "tenants.yaml").write_text(yaml.safe_dump({"tenants": {NAME: {"config": {"name": "rag"}}}}))
    return [Machine(tmp_path / name, project) for name in ("one", "two")]


def test_a_secret_is_rotated_in_two_steps_from_wherever_and_a_leaked_one_at_once(
    machines: Sequence[Machine],
) -> None:
    one, two = machines
    assert one.up().status == "created"
    first = one.taken()[SECRET]
    assert one.rotate("begin").status == "changed"
    both = one.taken()
    assert both[PREVIOUS] == first != both[SECRET]
    # Not a third one, while the first is still taken.
    refused = one.rotate("begin")
    assert (refused.status, "a rotation is under way" in str(refused.error)) == ("failed", True)
    assert one.rotate("begin").status == "failed"
    assert one.taken() == both
    # Another machine neither undoes it nor ends it; it can be ended there.
    assert two.up().status == "unchanged"
    assert two.rotate("finish").status == "changed"
    assert two.taken() == {SECRET: both[SECRET]}
    assert one.up().status == "unchanged"
    assert one.rotate("leaked").status == "changed"
    (last,) = one.taken().values()
    assert last not in both.values()


def test_a_rotation_that_was_killed_is_gone_on_with(machines: Sequence[Machine], tmp_path: Path) -> None:
    one, _ = machines
    nothing = one.rotate("begin")
    assert (nothing.status, "no stack" in str(nothing.error)) == ("failed", True)
    one.up()
    first = one.taken()[SECRET]
    # Killed after the new secret was made, before it was deployed.
    one.settings.renew_secret(keep=True)
    one.journal.begin("rotate-secret begin", anew=True)
    one.journal.note(NAME, Entry("rotate-secret begin", "running", "begin"))
    made = one.settings.path.read_text()
    assert one.rotate("begin").status == "changed"
    assert one.settings.path.read_text() == made
    taken = one.taken()
    assert taken[PREVIOUS] == first != taken[SECRET]
    assert one.stacks.of(NAME, None).secret() == taken[SECRET]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert one.settings.path in files
    for path in files:
        content = path.read_bytes()
        assert not [secret for secret in taken.values() if secret.encode() in content], path
