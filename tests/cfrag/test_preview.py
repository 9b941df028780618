"""A scripted pull request, previewed after each of its commits: the comments that a reviewer gets."""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from cfrag.preview_changes import read
from cfrag.preview_markdown import COMMENT_CHARS, StackPreview, comment, without_secrets
from cfrag.preview_worker import Rendered, WorkerDiff
from tests.deployed import Deployed
from tests.docs.project import copy_project, environment

STORED = Path(__file__).parent / "comments"
Rag = dict[str, Any]


@dataclass(frozen=True)
class PullRequest:
    """A git repository whose branch `main` is what is deployed; `head` grows by commits."""

    folder: Path
    shell: dict[str, str]

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True)

    def commit(self, change: Callable[[Rag], None]) -> None:
        """One more commit, that changes the stack's config."""
        path = self.folder / "Pulumi.local.yaml"
        settings = yaml.safe_load(path.read_text())
        change(settings["config"]["cf-rag:rag"])
        path.write_text(yaml.safe_dump(settings, sort_keys=False))
        self.git("commit", "--all", "--message", "change")

    def preview(self, *options: str, code: int) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cfrag", "preview", "--markdown", "--stack", "local", *options],
            cwd=self.folder,
            env=self.shell,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def pull_request(deployed: Deployed, tmp_path_factory: pytest.TempPathFactory) -> PullRequest:
    folder = copy_project(tmp_path_factory.mktemp("pull-request") / "project")
    (folder / "Pulumi.local.yaml").write_text((deployed.home / "Pulumi.local.yaml").read_text())
    state = {
        key: deployed.stack.environment[key]
        for key in ("PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE_FILE")
    }
    pull_request = PullRequest(folder, environment(folder, deployed) | state)
    pull_request.git("init", "--initial-branch", "main")
    pull_request.git("add", "--all")
    pull_request.git("add", "--force", "Pulumi.local.yaml")
    pull_request.git("commit", "--message", "base")
    pull_request.git("switch", "--create", "head")
    return pull_request


def describe_a_tool(rag: Rag) -> None:
    rag["mcp"] = {"tools": {"search_docs": "Search the Python language reference by meaning."}}


def add_a_field(rag: Rag) -> None:
    rag["metadata"]["author"] = {"type": "string", "description": "Who wrote it"}


def change_the_model(rag: Rag) -> None:
    rag["embedding"]["model"] = "@cf/google/embeddinggemma-300m"


def change_the_dimensions(rag: Rag) -> None:
    rag["embedding"]["model"] = "@cf/baai/bge-small-en-v1.5"


def normalised(text: str) -> str:
    """Without what other runs make different: ids, counts of a sample, and sizes of the packed Worker."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "<id>", text)
    text = re.sub(r"\d[\d,]* (documents|vectors|tokens|AI calls)", r"N \1", text)
    text = re.sub(r"\*\*Documents:\*\* \d[\d,]*", "**Documents:** N", text)
    text = re.sub(r"about \$[\d.]+ ", "about $C ", text)
    text = re.sub(r"[\d,]+ -> [\d,]+ \([+-]\d+\) of", "A -> B (C) of", text)
    return re.sub(r"(?m)^@@ .* @@$", "@@", text)


def test_four_commits_of_a_pull_request_get_the_comments_that_are_stored(
    pull_request: PullRequest, deployed: Deployed
) -> None:
    steps = (
        ("tool-description", describe_a_tool, 0),
        ("metadata-field", add_a_field, 0),
        ("model", change_the_model, 0),
        ("dims", change_the_dimensions, 1),
    )
    different = {}
    for name, change, code in steps:
        pull_request.commit(change)
        seen = pull_request.preview("--base", "main", code=code)
        assert deployed.key not in seen
        assert deployed.cloudflare.token not in seen
        stored = STORED / f"{name}.md"
        if normalised(seen) != (stored.read_text() if stored.exists() else ""):
            different[name] = normalised(seen)
            (deployed.home / stored.name).write_text(different[name])
    assert not different, f"seen, and kept in {deployed.home}:\n" + "\n".join(different.values())


def test_a_fork_gets_the_rendered_diff_alone_and_needs_nothing(pull_request: PullRequest) -> None:
    pull_request.git("switch", "--create", "fork", "main")
    pull_request.commit(describe_a_tool)
    kept = ("PATH", "PYTHONPATH", "HOME", "LANG")
    bare = {key: value for key, value in pull_request.shell.items() if key in kept}
    seen = PullRequest(pull_request.folder, bare).preview("--rendered-only", "--base", "main", code=0)
    assert "no account and no state were asked" in seen
    assert '+MCP_TOOLS: Final[dict[str, str]] = {"search_docs"' in seen.replace("'", '"')
    pull_request.git("switch", "head")


def test_a_config_at_fault_is_a_comment_as_well_and_a_failed_run(pull_request: PullRequest) -> None:
    pull_request.git("switch", "--create", "wrong", "main")
    pull_request.commit(lambda rag: rag["metadata"].update(words={"type": "numbr"}))
    seen = pull_request.preview("--rendered-only", "--base", "main", code=1)
    assert "cf-rag:rag.metadata.words.type" in seen
    pull_request.git("switch", "head")


def test_a_base_that_is_not_there_is_one_line(pull_request: PullRequest) -> None:
    seen = subprocess.run(
        [sys.executable, "-m", "cfrag", "preview", "--rendered-only", "--base", "--output=x"],
        cwd=pull_request.folder,
        env=pull_request.shell,
        capture_output=True,
        text=True,
        check=False,
    )
    assert seen.returncode == 2
    assert "--base --output=x can't be exported" in seen.stderr
    assert "Traceback" not in seen.stderr


def step(op: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"op": op, "urn": f"urn:pulumi:s::p::cfrag:index:RagStack${kind}::{name}", **more}


def test_what_is_lost_comes_first_and_a_replacement_is_one_row() -> None:
    steps = [
        step("create", "cloudflare:index/queue:Queue", "q"),
        step("create-replacement", "cfrag:index:VectorizeIndex", "index"),
        step("replace", "cfrag:index:VectorizeIndex", "index", detailedDiff={"dims": {}}),
        step("delete-replaced", "cfrag:index:VectorizeIndex", "index"),
        step("delete", "cloudflare:index/d1Database:D1Database", "db"),
        step("same", "cfrag:index:EmbeddingSpace", "space"),
    ]
    changes = read({"steps": steps})
    shown = [(each.verb, each.kind, each.name) for each in changes.resources]
    assert shown == [
        ("deleted", "D1Database", "db"),
        ("replaced", "VectorizeIndex", "index"),
        ("created", "Queue", "q"),
    ]
    assert changes.resources[1].properties == ("dims",)
    moved = step("update", "cfrag:index:SpaceActivation", "a", detailedDiff={'indexed["g1-author"]': {}})
    assert read({"steps": [moved]}).resources[0].properties == ()
    text = comment([StackPreview("s", changes, None, None)], None)
    assert "| **deleted** | D1Database **`db`** |" in text
    assert "| created | Queue `q` |" in text


def test_a_refusal_of_any_stack_is_above_the_changes_of_the_others() -> None:
    urn = "urn:pulumi:s::p::cfrag:index:EmbeddingSpace::space"
    message = (
        "error: cfrag:index:EmbeddingSpace resource 'space': property dims value {384} has a problem: "
        "refused: changing dims 768 -> 384\n"
    )
    refused = read({"diagnostics": [{"urn": urn, "message": message, "severity": "error"}]})
    changed = read({"steps": [step("update", "cloudflare:index/queue:Queue", "q")]})
    text = comment(
        [StackPreview("dev", changed, None, None), StackPreview("prod", refused, None, None)], None
    )
    assert refused.refusals == ("refused: changing dims 768 -> 384",)
    assert text.index("**Refused:** changing dims 768 -> 384") < text.index("### Stack `dev`")


def test_a_comment_stays_below_what_github_takes_and_its_fence_holds() -> None:
    old = Rendered("a", {"src/a.py": "x\n"}, {"fastapi": "1.0"}, 10)
    new = Rendered("b", {"src/a.py": "````\n" * 40_000}, {"fastapi": "1.1"}, 12)
    text = comment([StackPreview("prod", None, None, WorkerDiff(old, new))], "main")
    assert len(text) <= COMMENT_CHARS
    assert "| fastapi | 1.0 | 1.1 |" in text
    assert "\n`````diff\n" in text
    assert text.rstrip().endswith("</details>")


def test_of_a_long_string_only_the_part_that_changed_is_shown() -> None:
    before, after = "same\\n" * 100, "same\\n" * 50 + "new\\n" + "same\\n" * 50
    old = Rendered("a", {"src/page.py": f"PAGE = '{before}'\n"}, {}, 10)
    new = Rendered("b", {"src/page.py": f"PAGE = '{after}'\n"}, {}, 10)
    shown = WorkerDiff(old, new).text().splitlines()
    assert [line for line in shown[2:] if line[0] in "+-"] == ["+new\\n"]
    assert len(shown) < 10


def test_a_secret_of_the_environment_is_never_part_of_a_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDFLARE_API_TOKEN", "t" * 40)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "correct horse")
    text = without_secrets(f"401 for {'t' * 40}, correct horse")
    assert text == "401 for [CLOUDFLARE_API_TOKEN], [PULUMI_CONFIG_PASSPHRASE]"
