"""Sends documents in batches, and keeps count of what became of them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from cfrag.client import BATCH_DOCUMENTS, Client, describe_problem
from cfrag.sources import Document, Item


@dataclass(frozen=True)
class Failure:
    source: str
    id: str | None
    reason: str


@dataclass
class Report:
    indexed: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.indexed + self.skipped + len(self.failures)

    def to_json(self) -> dict[str, Any]:
        failed = [{"source": each.source, "id": each.id, "reason": each.reason} for each in self.failures]
        return {"indexed": self.indexed, "skipped": self.skipped, "failed": failed}


def ingest(
    client: Client, items: Iterable[Item], advance: Callable[[int], object], *, force: bool = False
) -> Report:
    """Sends every item, calling `advance` with the number just dealt with.

    One document that fails doesn't stop the others. What ends the run (no connection, a wrong key) is raised.
    """
    report = Report()
    seen: dict[str, str] = {}
    for batch in _batches(items):
        good = [(item, item.document) for item in batch if item.document and _first_use(item, seen, report)]
        report.failures += [Failure(item.source, None, item.problem) for item in batch if item.problem]
        if good:
            sent = [document | {"forceReindex": True} if force else document for _, document in good]
            _count(report, good, client.ingest(sent))
        advance(len(batch))
    return report


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    remaining = iter(items)
    while batch := list(islice(remaining, BATCH_DOCUMENTS)):
        yield batch


def _first_use(item: Item, seen: dict[str, str], report: Report) -> bool:
    """Two files with one id would overwrite each other in every run: the second is a failure."""
    assert item.document is not None
    doc_id = item.document["id"]
    first = seen.setdefault(doc_id, item.source)
    if first == item.source:
        return True
    report.failures.append(Failure(item.source, doc_id, f"its id is also that of {first}"))
    return False


def _count(report: Report, sent: list[tuple[Item, Document]], results: list[dict[str, Any]]) -> None:
    for (item, document), result in zip(sent, results, strict=True):
        status = result.get("status")
        if status == "indexed":
            report.indexed += 1
        elif status == "skipped":
            report.skipped += 1
        else:
            problem = result.get("problem") or {"title": f"answered {status!r}"}
            reason = describe_problem(problem | {"requestId": None})
            report.failures.append(Failure(item.source, document["id"], reason))
