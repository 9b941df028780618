"""`cfrag graft` on copies of the example hosts: what it shows, what it writes, and what it leaves alone."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cfrag.graft import host, plan
from cfrag.pulumi_env import ROOT
from infra.bundle.templates import own_modules
from infra.config import RagConfig
from infra.errors import CfragError

HOSTS = ROOT / "examples/graft_host"
Copy = Callable[[str], Path]
CONFIG = RagConfig(name="docs")


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    def make(name: str) -> Path:
        return Path(shutil.copytree(HOSTS / name, tmp_path / name))

    return make


def graft(into: Path, *options: str, answer: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cfrag", "graft", "--into", str(into), *options],
        cwd=ROOT,
        input=answer,
        capture_output=True,
        text=True,
        check=False,
    )


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def planned(folder: Path, config: RagConfig = CONFIG, *, overwrite: bool = False) -> plan.Plan:
    return plan.make(host.find(folder), plan.Wish(config, "test"), overwrite)


def paths(made: plan.Plan) -> set[str]:
    return {change.path for change in made.changes}


def test_changes_are_shown_and_nothing_is_written_without_a_yes(copy: Copy) -> None:
    folder = copy("fastapi")
    before = contents(folder)
    shown = graft(folder, "--stack", "dev", answer="n\n")
    assert shown.returncode == 1
    assert '+app.mount("/rag", rag)' in shown.stdout
    assert "+ src/rag/core.py (" in shown.stdout
    assert contents(folder) == before


def test_run_again_without_options_it_does_as_before_and_changes_nothing(copy: Copy) -> None:
    folder = copy("fastapi")
    first = graft(folder, "-s", "dev", "--auth", "host", "--authorize", "sessions:scopes_of", "--yes")
    assert first.returncode == 0, first.stderr
    written = contents(folder)
    again = graft(folder)
    assert again.returncode == 0, again.stderr
    assert "up to date" in again.stderr
    assert contents(folder) == written
    assert "authorize=scopes_of" in written["src/rag_service.py"]


def test_the_hosts_own_lines_all_stay(copy: Copy) -> None:
    folder = copy("plain")
    before = contents(folder)
    planned(folder).write()
    after = contents(folder)
    assert before.keys() < after.keys()
    source = iter(after["src/main.py"].splitlines())
    assert all(line in source for line in before["src/main.py"].splitlines())
    assert "// one mail at a time" in after["wrangler.jsonc"]


def test_an_upgrade_takes_new_files_and_keeps_those_edited_in_the_host(copy: Copy) -> None:
    folder = copy("plain")
    planned(folder).write()
    edited = folder / "src/rag/settings.py"
    edited.write_text(edited.read_text() + "\nMINE = 1\n")
    wider = RagConfig.from_pulumi({"name": "docs", "metadata": {"words": {"type": "number"}}})
    upgrade = planned(folder, wider)
    assert upgrade.edited == ["src/rag/settings.py"]
    assert "src/rag/settings.py" not in paths(upgrade)
    assert "src/rag/schemas.py" in paths(upgrade)
    upgrade.write()
    assert edited.read_text().endswith("MINE = 1\n")
    # Once said, and still kept; with --overwrite it goes.
    assert planned(folder, wider).edited == ["src/rag/settings.py"]
    assert "src/rag/settings.py" in paths(planned(folder, wider, overwrite=True))


def test_an_edit_without_anything_new_from_here_is_nobodys_business(copy: Copy) -> None:
    folder = copy("plain")
    planned(folder).write()
    glue = folder / "src/rag_service.py"
    glue.write_text(glue.read_text() + "# mine\n")
    again = planned(folder)
    assert (again.edited, again.changes) == ([], [])


def test_a_file_that_is_no_longer_part_of_the_service_goes(copy: Copy) -> None:
    folder = copy("plain")
    planned(folder).write()
    record = json.loads((folder / plan.MANIFEST).read_text())
    old = folder / "src/rag/old.py"
    old.write_text("")
    record["files"]["src/rag/old.py"] = record["files"]["src/rag/__init__.py"]
    (folder / plan.MANIFEST).write_text(json.dumps(record))
    planned(folder).write()
    assert not old.exists()


def test_another_graft_interrupted_half_way_is_finished_by_the_next(copy: Copy) -> None:
    folder = copy("plain")
    whole = planned(folder)
    for change in whole.changes[: len(whole.changes) // 2]:
        (folder / change.path).parent.mkdir(parents=True, exist_ok=True)
        (folder / change.path).write_text(change.after or "")
    planned(folder).write()
    assert planned(folder).changes == []


def test_a_package_of_the_same_name_is_not_written_over(copy: Copy) -> None:
    folder = copy("plain")
    (folder / "src/rag").mkdir()
    (folder / "src/rag/core.py").write_text("mine = 1\n")
    with pytest.raises(CfragError, match="not from `cfrag graft`"):
        planned(folder)


def test_a_host_with_wrangler_toml_is_told_what_to_add(copy: Copy) -> None:
    folder = copy("plain")
    (folder / "wrangler.jsonc").unlink()
    settings = 'name = "notes"\nmain = "src/main.py"\n'
    (folder / "wrangler.toml").write_text(settings)
    made = planned(folder)
    ((where, text),) = made.by_hand
    assert where == "wrangler.toml"
    assert json.loads(text)["vectorize"][0]["index_name"] == "docs-test-768-g1"
    made.write()
    assert (folder / "wrangler.toml").read_text() == settings


@pytest.mark.parametrize(
    "files", [{}, {"wrangler.jsonc": '{"main": "src/index.ts"}'}, {"wrangler.jsonc": "{"}]
)
def test_what_is_no_python_worker_is_refused(tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    refused = graft(tmp_path, "--stack", "dev")
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert str(tmp_path) in refused.stderr


def test_the_hosts_function_goes_with_host_auth_only(copy: Copy) -> None:
    folder = copy("fastapi")
    assert "--authorize" in graft(folder, "-s", "dev", "--auth", "host").stderr
    assert "--authorize" in graft(folder, "-s", "dev", "--authorize", "a:b").stderr


def test_every_module_of_the_service_comes_along_but_its_entry(copy: Copy) -> None:
    folder = copy("plain")
    planned(folder).write()
    service = {each.name for each in own_modules(CONFIG)} - {"entry.py"}
    assert {path.removeprefix("src/") for path in contents(folder)} >= service
    assert not (folder / "src/entry.py").exists()
