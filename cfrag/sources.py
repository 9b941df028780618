"""Documents from files: Markdown with front matter, and JSON Lines."""

import json
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import frontmatter
import yaml

from cfrag.errors import InputError
from cfrag.identifiers import fold_id

MARKDOWN = frozenset({".md", ".markdown"})
JSON_LINES = frozenset({".jsonl", ".ndjson"})

Document = dict[str, Any]


class Item(NamedTuple):
    """A document and where it came from, or what was wrong there (`problem`)."""

    source: str
    document: Document | None
    problem: str | None = None


def find_files(paths: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Each file to read and the folder that its id is relative to. Raises InputError for a path of no use."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist")
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        readable = [file for file in files if file.suffix.lower() in MARKDOWN | JSON_LINES]
        if not readable:
            kinds = ", ".join(sorted(MARKDOWN | JSON_LINES))
            raise InputError(f"{path} holds nothing to ingest (files that end in {kinds})")
        found |= {file: path if path.is_dir() else path.parent for file in readable}
    return list(found.items())


def read(file: Path, base: Path, fields: Sequence[str] = ()) -> Iterator[Item]:
    """The documents of one file. `fields` are front-matter keys that become metadata."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        yield Item(
            str(file), None, f"is no text in UTF-8 (byte {error.start + 1}): convert it, or leave it out"
        )
        return
    except OSError as error:
        yield Item(str(file), None, f"can't be read: {error}")
        return
    if file.suffix.lower() in MARKDOWN:
        yield _markdown(file, base, text, fields)
    else:
        yield from _json_lines(file, text)


def _markdown(file: Path, base: Path, text: str, fields: Sequence[str]) -> Item:
    try:
        front, body = frontmatter.parse(text)
    except yaml.YAMLError as error:
        return Item(str(file), None, f"its front matter is no YAML: {' '.join(str(error).split())}")
    metadata = front.get("metadata") or {}
    if not isinstance(metadata, dict):
        return Item(str(file), None, 'its front matter has a "metadata" that is no mapping')
    chosen = {name: front[name] for name in fields if name in front}
    name = str(front.get("id") or file.relative_to(base).as_posix())
    document: Document = {
        "id": fold_id(name),
        "title": str(front.get("title") or _first_heading(body) or file.stem),
        "body": body,
        "tags": _tags(front.get("tags")),
        "metadata": {key: _plain(value) for key, value in (metadata | chosen).items()},
    }
    if "active" in front:
        document["active"] = front["active"]
    return Item(str(file), document)


def _json_lines(file: Path, text: str) -> Iterator[Item]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        source = f"{file}:{number}"
        try:
            document = json.loads(line)
        except ValueError as error:
            yield Item(source, None, f"is no JSON: {error}")
            continue
        if not isinstance(document, dict) or not isinstance(document.get("id"), str):
            yield Item(source, None, 'is no document: an object with an "id" is needed')
            continue
        yield Item(source, document | {"id": fold_id(document["id"])})


def _first_heading(body: str) -> str | None:
    for line in body.splitlines():
        if line.startswith("# "):
            return line.removeprefix("# ").strip().rstrip("#").strip() or None
    return None


def _tags(value: object) -> list[str]:
    """Front matter writes tags as a list or as words between commas."""
    if value is None:
        return []
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    return [str(part).strip() for part in parts if str(part).strip()]


def _plain(value: object) -> object:
    """YAML makes dates of what looks like one; JSON has none."""
    return value.isoformat() if isinstance(value, date) else value
