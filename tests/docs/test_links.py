"""What the documentation points to is there: files, headings, and commands with their options."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import typer

from cfrag.main import app
from cfrag.pulumi_env import ROOT, pulumi_env
from tests.docs import written
from tests.docs.written import PAGES, Command

COMMANDS = [each for page in PAGES for each in written.commands(page, page.read_text())]


def of(program: str) -> list[Command]:
    return [each for each in COMMANDS if each.words[0] == program]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    for target in written.links(page.read_text()):
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert file.is_relative_to(ROOT), target
        if fragment:
            assert fragment in written.anchors(file.read_text()), target


def test_every_page_of_the_documentation_can_be_reached_from_its_index() -> None:
    index = ROOT / "docs/README.md"
    seen, todo = set(), [index]
    while todo:
        page = todo.pop()
        if page.is_dir():
            todo += page.glob("*.md")
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        targets = (target.partition("#")[0] for target in written.links(page.read_text()))
        todo += [(page.parent / target).resolve() for target in targets if target and "://" not in target]
    assert set(PAGES) - {ROOT / "CHANGELOG.md"} - seen == set()


def test_commands_of_the_documentation_are_commands_of_cfrag() -> None:
    group = typer.main.get_command(app)
    assert len(of("cfrag")) > 30
    assert [fault for each in of("cfrag") for fault in faults(group, each.words[1:], str(each))] == []


def faults(command: Any, words: Iterable[str], shown: str) -> list[str]:
    """What of a command line doesn't exist; values and arguments may be anything."""
    rest = list(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        # `cfrag keys` alone, or `cfrag ...`, speaks of the whole group.
        found = command.commands.get(rest[0])
        if found is None:
            return [] if set(rest[0]) <= set(".…") else [f"{shown}: no {rest[0]!r}"]
        command, rest = found, rest[1:]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help"}
    options = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    return [f"{shown}: no {option}" for option in options if option not in known]


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("cfrag keys mint --name a --scope read", []),
        ("cfrag kyes mint", ["no 'kyes'"]),
        ("cfrag keys mint --nmae a", ["no --nmae"]),
        ("cfrag search 'two words' -w 'words<100'", []),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(line: str, missing: list[str]) -> None:
    (command,) = written.commands(ROOT / "README.md", f"`{line}`")
    found = faults(typer.main.get_command(app), command.words[1:], "x")
    assert found == [f"x: {each}" for each in missing]


def test_targets_of_the_documentation_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for each in of("make") for word in each.words[1:] if re.fullmatch(r"[a-z-]+", word)}
    assert {"demo", "test"} <= named
    assert named - targets == set()


def test_pulumis_commands_in_the_documentation_exist_with_their_options(tmp_path: Path) -> None:
    by_path: dict[tuple[str, ...], set[str]] = {}
    for each in of("pulumi"):
        path = _path(each.words[1:])
        options = {word.partition("=")[0] for word in each.words[1:] if word.startswith("--")}
        by_path.setdefault(path, set()).update(options)
    assert {("up",), ("preview",), ("config", "set")} <= by_path.keys()
    for path, options in by_path.items():
        shown = _help(tmp_path, path)
        # For a command that doesn't exist the CLI shows its parent's help.
        assert not path or shown != _help(tmp_path, path[:-1]), path
        assert {each for each in options if not re.search(rf"{each}\b", shown)} == set(), path


def _help(home: Path, path: tuple[str, ...]) -> str:
    shown = ["pulumi", *path, "--help"]
    done = subprocess.run(shown, env=pulumi_env(home), capture_output=True, text=True, check=True)
    return done.stdout


_GROUPS = {"config", "stack", "package", "plugin", "state", "policy", "org"}


def _path(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words that name a command: the first, and the second where the first is a group."""
    named = [word for word in words[:2] if re.fullmatch(r"[a-z-]+", word) and not word.startswith("-")]
    return tuple(named[: 2 if named and named[0] in _GROUPS else 1])
