"""The pipelines: what they may do, what they tell strangers' code, and that their commands exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from cfrag.main import app
from cfrag.pulumi_env import ROOT

Yaml = dict[Any, Any]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
ACTION = ROOT / ".github/actions/setup/action.yml"
GITLAB = ROOT / "examples/gitlab-ci.yml"
_PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
_SAME_REPOSITORY = "github.event.pull_request.head.repo.full_name == github.repository"


def load(path: Path) -> Yaml:
    content: Yaml = yaml.safe_load(path.read_text())
    return content


def triggers(workflow: Yaml) -> Yaml:
    # YAML 1.1 reads the key `on` as true.
    found: Yaml = workflow[True]
    return found


def jobs() -> Iterator[tuple[str, str, Yaml]]:
    for path in WORKFLOWS:
        for name, job in load(path)["jobs"].items():
            yield path.stem, name, job


def steps() -> Iterator[Yaml]:
    for _, _, job in jobs():
        yield from job["steps"]
    yield from load(ACTION)["runs"]["steps"]


def scripts() -> Iterator[str]:
    yield from (step["run"] for step in steps() if "run" in step)
    for job in load(GITLAB).values():
        if isinstance(job, dict):
            yield from job.get("script", [])
    yield from re.findall(
        r"^```(?:bash|console)\n(.*?)^```", (ROOT / "docs/deploy.md").read_text(), re.M | re.S
    )


def cfrag_calls(script: str) -> Iterator[list[str]]:
    """The arguments of each `cfrag` in a script."""
    for part in re.split(r"\n|&&|\|\||[|;]|\$\(", script):
        words = part.strip().removeprefix("$ ")
        words = re.sub(r"^(\w+=\S+ )+", "", words)
        if words.startswith("cfrag "):
            yield shlex.split(re.split(r" >>? ", words.removesuffix(")").removesuffix(')"'))[0])[1:]


def test_every_action_is_pinned_to_a_commit() -> None:
    used = [step["uses"] for step in steps() if "uses" in step]
    assert used
    foreign = [each for each in used if not each.startswith("./.github/")]
    assert not [each for each in foreign if not _PINNED.fullmatch(each)]


def test_workflows_read_the_repository_and_write_nothing_but_the_one_comment() -> None:
    for path in WORKFLOWS:
        assert load(path)["permissions"] == {"contents": "read"}, path.name
    writing = {
        (workflow, name): {key for key, right in job.get("permissions", {}).items() if right != "read"}
        for workflow, name, job in jobs()
    }
    assert {job: rights for job, rights in writing.items() if rights} == {
        ("preview", "comment"): {"pull-requests"}
    }


def test_where_a_comment_is_written_no_code_of_the_pull_request_runs() -> None:
    job = load(ROOT / ".github/workflows/preview.yml")["jobs"]["comment"]
    used, run = ([step[key] for step in job["steps"] if key in step] for key in ("uses", "run"))
    assert [each.partition("@")[0] for each in used] == ["actions/download-artifact"]
    assert [each.split()[0] for each in run] == ["gh"]


def test_no_checkout_leaves_its_token_behind() -> None:
    checkouts = [step for step in steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) == len([job for job in jobs() if job[1] != "comment"])
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_a_forks_code_never_runs_with_a_secret() -> None:
    assert not [path.name for path in WORKFLOWS if "pull_request_target" in triggers(load(path))]
    assert not [path.name for path in WORKFLOWS if "workflow_run" in triggers(load(path))]
    for workflow, name, job in jobs():
        if "pull_request" not in triggers(load(ROOT / f".github/workflows/{workflow}.yml")):
            continue
        for_forks = not job.get("if", "").startswith(_SAME_REPOSITORY)
        text = yaml.safe_dump(job)
        assert not (for_forks and ("secrets." in text or "github.token" in text or "environment" in job)), (
            name
        )
        assert not for_forks or "--rendered-only" in text
    fork = load(GITLAB)["fork"]
    assert "environment" not in fork
    assert "--rendered-only" in "".join(fork["script"])


def test_expressions_of_strangers_reach_a_script_through_its_environment_only() -> None:
    assert not [script for script in (step.get("run", "") for step in steps()) if "${{" in script]


@pytest.mark.parametrize(
    "call", sorted({shlex.join(call) for script in scripts() for call in cfrag_calls(script)})
)
def test_every_command_of_the_pipelines_and_the_guide_exists_with_its_options(call: str) -> None:
    command: Any = typer.main.get_command(app)
    words = shlex.split(call)
    while hasattr(command, "commands"):
        name = words.pop(0)
        assert name in command.commands, call
        command = command.commands[name]
    known = {option for parameter in command.params for option in parameter.opts}
    assert not {word for word in words if re.match(r"--?[a-z]", word)} - known


def test_the_pipelines_call_what_they_are_for() -> None:
    called = {call[0] for script in scripts() for call in cfrag_calls(script)}
    assert {"doctor", "preview", "rollback", "smoke", "keys"} <= called
