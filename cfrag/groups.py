"""Things to send, as many together as one call takes."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def grouped(sized: Iterable[tuple[T, int]], most: int, most_bytes: int) -> Iterator[list[T]]:
    """The things in order, each given with its size in bytes; one that is too large goes alone."""
    group: list[T] = []
    used = 0
    for each, size in sized:
        if group and (len(group) == most or used + size > most_bytes):
            yield group
            group, used = [], 0
        group.append(each)
        used += size
    if group:
        yield group
