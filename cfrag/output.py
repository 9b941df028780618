"""Where output goes: data to standard output, everything else to standard error."""

import json
import sys
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

# Highlighting and emoji would change what documents say.
out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)


def print_json(data: Any) -> None:
    """One JSON value, as a script wants it: no colours, no wrapping."""
    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=2) + "\n")


def say(line: str) -> None:
    """What is going on, for the person who waits; not data."""
    err.print(line, markup=False, soft_wrap=True)


def complain(message: str) -> None:
    err.print(f"cfrag: {message}", markup=False, soft_wrap=True, style="red")


def progress_bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=err
    )


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
