"""A reader who follows docs/deploy.md, against the Cloudflare on this machine."""

import re
import subprocess
from pathlib import Path

import yaml

from cfrag.pulumi_env import ROOT
from tests.deployed import Deployed
from tests.docs.project import copy_project, environment

GUIDE = (ROOT / "docs/deploy.md").read_text()
_BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """What the guide tells a reader to run, block by block."""
    return _BLOCK.findall(GUIDE)


def destroy(project: Path, shell: dict[str, str]) -> None:
    """The guide's last step."""
    allow = ["config", "set", "--path", "cf-rag:rag.allowDataLoss", "true"]
    for arguments in (allow, ["up", "--yes", "--skip-preview"], ["destroy", "--yes", "--skip-preview"]):
        done = subprocess.run(
            ["pulumi", *arguments, "--stack", "prod", "--non-interactive"],
            cwd=project,
            env=shell,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_guides_commands_lead_from_nothing_to_a_service_that_passes_its_smoke_test(
    deployed: Deployed, tmp_path: Path
) -> None:
    project = copy_project(tmp_path / "project")
    (tmp_path / "state").mkdir()
    shell = environment(project, deployed) | {
        "PULUMI_BACKEND_URL": (tmp_path / "state").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "a passphrase for the test",
    }
    # -v shows each command as it is written, without the secrets that it gets.
    script = tmp_path / "guide.sh"
    script.write_text("set -euvo pipefail\n" + "\n".join(commands()))
    done = subprocess.run(
        ["bash", str(script)],
        cwd=project,
        env=shell,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("it is gone") == 2, "both smoke tests"
    assert "cf-rag-prod-worker runs version 1" in done.stdout
    after = done.stdout.partition("cf-rag-prod-worker runs version 1")[2]
    unchanged, seen, ended = re.split(
        r"^(?:cfrag preview --refresh|pulumi config rm) .*$", after, flags=re.MULTILINE
    )
    assert "rolled back" not in unchanged + seen
    assert re.search(r"\*\*replaced\*\* \| WorkerVersion .*`serving \S+ \(100 %\) -> this one`", seen)
    assert re.search(r"cf-rag-prod-worker was rolled back at .* UTC, from version \S+ to \S+\.", ended)
    destroy(project, shell)
    left = deployed.cloudflare.call("GET", "/__local/status")
    assert not [each for each in left["workers"] + left["indexes"] if each["name"].startswith("cf-rag-prod")]


def test_the_environments_differ_only_where_the_guide_says() -> None:
    configs = {
        stack: yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())["config"]["cf-rag:rag"]
        for stack in ("dev", "staging", "prod")
    }
    section = GUIDE.partition("## The environments")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)(?:\.\w+)*`", section)) - {"local"}
    keys = {key for config in configs.values() for key in config}
    differing = {key for key in keys if len({str(config.get(key)) for config in configs.values()}) > 1}
    assert differing == named & keys
    assert not configs["prod"].get("allowDataLoss")
    assert not configs["prod"].get("docsPublic")


def test_every_file_that_the_guide_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", GUIDE)
    assert links
    assert not [link for link in links if not (ROOT / "docs" / link).exists()]
