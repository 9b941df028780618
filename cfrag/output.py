"""Where output goes: data to standard output, everything else to standard error."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

# Highlighting and emoji would change what documents say.
out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)

AGAIN = "interrupted: run the same command again, which goes on from here"


def print_json(data: Any) -> None:
    """One JSON value, as a script wants it: no colours, no wrapping."""
    sys.stdout.write(json.dumps(data, ensure_ascii=False, indent=2) + "\n")


def say(line: str) -> None:
    """What is going on, for the person who waits; not data."""
    err.print(line, markup=False, soft_wrap=True)


def complain(message: str) -> None:
    err.print(f"cfrag: {message}", markup=False, soft_wrap=True, style="red")


@contextmanager
def progress_bar(interrupted: str = AGAIN) -> Iterator[Progress]:
    """A bar; who interrupts it is told what then holds."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    try:
        with Progress(*columns, console=err) as bar:
            yield bar
    except KeyboardInterrupt:
        say(interrupted)
        raise


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
