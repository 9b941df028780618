"""What the documentation says: its links, headings, and the commands in it."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cfrag.pulumi_env import ROOT

PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))
PROGRAMS = ("cfrag", "make", "pulumi")

_FENCE = re.compile(r"^(```+)(\w*)[^\n]*\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.*)$", re.MULTILINE)
_SHELL = {"", "sh", "bash", "shell", "console"}
_ENDS = {"|", "||", "&&", ";", ">", ">>", "<", "#", "&", ")"}


@dataclass(frozen=True)
class Command:
    """A command as a page shows it: the program and its words; `whole` ones can be run as they are."""

    page: Path
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {' '.join(self.words)}"


def links(text: str) -> list[str]:
    """Targets of a page's links; those in code are none."""
    return _LINK.findall(_INLINE.sub("", _FENCE.sub("", text)))


def anchors(text: str) -> set[str]:
    """Fragments of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    made = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        made.add(slug if count == 0 else f"{slug}-{count}")
    return made


def commands(page: Path, text: str) -> Iterator[Command]:
    """The commands of our programs in a page's code."""
    for line in _code(text):
        for words in _split(line):
            yield Command(page, words)


def _code(text: str) -> Iterator[str]:
    for fence in _FENCE.finditer(text):
        if fence[2] in _SHELL:
            shown = fence[3].replace("\\\n", " ").splitlines()
            # In a session what isn't behind a prompt is output.
            yield from [line for line in shown if line.startswith("$ ")] or (
                [] if fence[2] == "console" else shown
            )
    prose = _FENCE.sub("", text)
    indented = re.findall(r"(?:^|\n)\n((?:    [^\n]*\n?)+)", prose)
    yield from (line for block in indented for line in block.splitlines())
    yield from _INLINE.findall(re.sub(r"^    .*$", "", prose, flags=re.MULTILINE))


def _split(line: str) -> Iterator[tuple[str, ...]]:
    """Every command of a program of ours in a line; `a|b` in the place of a word is two commands."""
    # In a table a pipe is escaped.
    try:
        words = shlex.split(line.replace(r"\|", "|").removeprefix("$ "), comments=True)
    except ValueError:
        return
    begins = True
    for at, word in enumerate(words):
        program = word.removeprefix(".venv/bin/").removeprefix("$(")
        if begins and program in PROGRAMS:
            rest: list[str] = []
            for each in words[at + 1 :]:
                if each in _ENDS:
                    break
                rest.append(each.rstrip(";)"))
            yield from _alternatives(program, rest)
        begins = word in _ENDS or ("=" in word and begins) or word.endswith(";") or word == "eval"


def _alternatives(program: str, rest: list[str]) -> Iterator[tuple[str, ...]]:
    choices = next((at for at, word in enumerate(rest) if re.fullmatch(r"[a-z-]+(\|[a-z-]+)+", word)), None)
    if choices is None:
        yield (program, *rest)
        return
    for each in rest[choices].split("|"):
        yield (program, *rest[:choices], each, *rest[choices + 1 :])
