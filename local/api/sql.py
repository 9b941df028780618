"""Cutting a text of several SQL statements into statements, as D1 does before a batch."""

import sqlite3
from collections.abc import Iterator


def statements(text: str) -> list[str]:
    """The statements of `text`, in order, without the empty ones.

    SQLite itself says where one ends, so that a semicolon in a string, a comment or the
    body of a trigger does not cut it.
    """
    return [statement for statement in _cut(text) if not _is_blank(statement)]


def _cut(text: str) -> Iterator[str]:
    start, end = 0, text.find(";")
    while end >= 0:
        if sqlite3.complete_statement(text[start : end + 1]):
            yield text[start : end + 1].strip()
            start = end + 1
        end = text.find(";", end + 1)
    yield text[start:].strip()


def _is_blank(statement: str) -> bool:
    """Nothing but white space, comments and semicolons."""
    rest = statement
    while rest := rest.lstrip(" \t\r\n;"):
        if rest.startswith("--"):
            rest = rest.partition("\n")[2]
        elif rest.startswith("/*"):
            rest = rest.partition("*/")[2]
        else:
            return False
    return True
