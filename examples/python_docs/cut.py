"""Cuts a reStructuredText-like topic into passages that fit an embedding model's input."""

import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# bge models read 512 tokens; English prose with code in it has about four characters to a token.
MAX_CHARS = 1_800

_UNDERLINE = re.compile(r"([*=\-~^])\1{2,}")
_ENTRY = re.compile(r"(class |object\.|str\.|[a-z_]+\.)?[\w.]+\([^\n]*\)|![a-z]+[^\n]*", re.IGNORECASE)


class Passage(NamedTuple):
    """`heading` names the nearest heading, `entry` the function or method that is described, if any."""

    heading: str
    entry: str | None
    body: str


def passages(text: str) -> Iterator[Passage]:
    """The passages of a topic, in order, each of at most `MAX_CHARS` characters."""
    for heading, section in _sections(text):
        for entry, blocks in _entries(section):
            for body in _grouped(blocks):
                yield Passage(heading, entry, body)


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each heading with the blocks (paragraphs, lists, code) below it, up to the next heading."""
    heading, blocks = "", list[str]()
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        first, _, rest = block.partition("\n")
        underline, _, rest = rest.partition("\n")
        if not _UNDERLINE.fullmatch(underline.strip()):
            blocks.append(block.rstrip())
            continue
        if blocks:
            yield heading, blocks
        heading, blocks = first.strip(), [rest] if rest.strip() else []
    if blocks:
        yield heading, blocks


def _entries(blocks: Iterable[str]) -> Iterator[tuple[str | None, list[str]]]:
    """Splits where a function is described: a signature at the margin, its text indented below."""
    entry, below = None, list[str]()
    for block in blocks:
        first = block.partition("\n")[0]
        starts = bool(_ENTRY.fullmatch(first))
        leaves = entry is not None and not block.startswith(" ")
        if (starts or leaves) and below:
            yield entry, below
            below = []
        if starts or leaves:
            entry = first if starts else None
        below.append(block)
    if below:
        yield entry, below


def _grouped(blocks: Iterable[str]) -> Iterator[str]:
    """Joins neighbouring blocks while they fit; a block that is too long by itself is cut at line ends."""
    group = ""
    for block in (part for whole in blocks for part in _fitting(whole)):
        if group and len(group) + 2 + len(block) > MAX_CHARS:
            yield textwrap.dedent(group).strip("\n")
            group = ""
        group = f"{group}\n\n{block}" if group else block
    if group.strip():
        yield textwrap.dedent(group).strip("\n")


def _fitting(block: str) -> Iterator[str]:
    part = ""
    for line in block.splitlines():
        if part and len(part) + 1 + len(line) > MAX_CHARS:
            yield part
            part = ""
        part = f"{part}\n{line}" if part else line
    yield part
