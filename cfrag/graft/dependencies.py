"""The service's Python packages in a host's `pyproject.toml`."""

import re
import tomllib
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def requirements(pyproject: str) -> list[str]:
    """The project's dependencies."""
    return list(_dependencies(pyproject) or [])


def missing(host: str, wanted: list[str]) -> list[str]:
    """Those that the host doesn't name, in whatever version."""
    named = {_key(each) for each in requirements(host)}
    return [each for each in wanted if _key(each) not in named]


def merge(host: str, wanted: list[str]) -> str | None:
    """The host's file with what is missing in it; None where only a person can tell how."""
    added = missing(host, wanted)
    if not added:
        return host
    before = _dependencies(host)
    start = re.search(r"^dependencies\s*=\s*\[", host, re.MULTILINE)
    if before is None or start is None:
        return None
    end = _closing(host, start.end())
    inner = host[start.end() : end]
    lines = [f'    "{each}",\n' for each in added]
    if "\n" in inner:
        kept = inner.rstrip()
        comma = "" if not before or kept.endswith(",") else ","
        merged = f"{kept}{comma}\n{''.join(lines)}"
    else:
        merged = "\n" + "".join(f'    "{each}",\n' for each in [*before, *added])
    text = host[: start.end()] + merged + host[end:]
    return text if _safe_dependencies(text) == [*before, *added] else None


def _closing(text: str, position: int) -> int:
    """Where the list ends: brackets in strings (extras) don't count."""
    quote = ""
    for at in range(position, len(text)):
        if quote:
            quote = "" if text[at] == quote else quote
        elif text[at] in "\"'":
            quote = text[at]
        elif text[at] == "]":
            return at
    return len(text)


def _dependencies(text: str) -> list[str] | None:
    project: Any = tomllib.loads(text).get("project", {})
    found = project.get("dependencies", None)
    return found if isinstance(found, list) else None


def _safe_dependencies(text: str) -> list[str] | None:
    try:
        return _dependencies(text)
    except tomllib.TOMLDecodeError:
        return None


def _key(requirement: str) -> str:
    match = _NAME.match(requirement.strip())
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else requirement
