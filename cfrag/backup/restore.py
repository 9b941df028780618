"""Sends the documents of a backup to a service, with or without their vectors."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cfrag.backup.file import Backup, Json, encoded
from cfrag.backup.listing import State
from cfrag.client import BATCH_DOCUMENTS, Client, describe_problem
from cfrag.groups import grouped
from cfrag.ingest import Failure

# A request's body may have 4 MiB; a document is at most some 70 KB with its vector.
BATCH_BYTES = 3_000_000


@dataclass(frozen=True)
class Plan:
    """What an import will do: `new` documents, `differing` ones to be overwritten, and those `left` alone.

    Where fields are left out, documents may differ for the want of these only.
    """

    new: int
    differing: int
    left: frozenset[str]


@dataclass
class Restored:
    """What became of the documents; those `overwritten` are `indexed` ones that the target had otherwise."""

    indexed: int = 0
    overwritten: int = 0
    skipped: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.indexed + self.skipped + len(self.failures)


def plan(backup: Backup, held: Mapping[str, State], *, skip_existing: bool) -> Plan:
    """`held` are the documents of the target."""
    new = differing = 0
    left: list[str] = []
    for document in backup.lines():
        state = held.get(document["id"])
        if state is None:
            new += 1
        elif skip_existing:
            left.append(document["id"])
        elif (state.hash, state.active) != (document["contentHash"], document["active"]):
            differing += 1
    return Plan(new, differing, frozenset(left))


def restore(
    client: Client,
    backup: Backup,
    advance: Callable[[int], object],
    *,
    vectors: bool,
    existing: Collection[str],
    leave: frozenset[str],
    drop: frozenset[str],
    force: bool,
) -> Restored:
    """Send all but those to `leave`; `existing` are the target's, `drop` are fields that are not sent.

    Safe to repeat: what the target has already is skipped there, unless `force` is set. One document
    that fails doesn't stop the others; what ends the run (no connection, a wrong key) is raised.
    """
    restored = Restored()
    wanted = (document for document in backup.lines() if document["id"] not in leave)
    for batch in batches(wanted):
        sent = [_sent(document, vectors=vectors, drop=drop, force=force) for document in batch]
        if vectors:
            results = client.ingest_with_vectors(backup.header["fingerprint"], sent)
        else:
            results = client.ingest(sent)
        for document, given, result in zip(batch, sent, results, strict=True):
            same = given["metadata"] == document["metadata"]
            _count(restored, document, result, document["contentHash"] if same else None, existing)
        advance(len(batch))
    return restored


def batches(documents: Iterable[Json]) -> Iterator[list[Json]]:
    """As many at a time as a request takes, by number and by bytes."""
    return grouped(((each, len(encoded(each))) for each in documents), BATCH_DOCUMENTS, BATCH_BYTES)


def _sent(document: Json, *, vectors: bool, drop: frozenset[str], force: bool) -> Json:
    kept = ("id", "title", "body", "tags", "active", *(("values",) if vectors else ()))
    sent = {**{key: document[key] for key in kept}, "metadata": without(document, drop)["metadata"]}
    return {**sent, "forceReindex": True} if force else sent


def without(document: Json, drop: frozenset[str]) -> Json:
    """The document without these fields."""
    metadata = {name: value for name, value in document["metadata"].items() if name not in drop}
    return {**document, "metadata": metadata}


def _count(
    restored: Restored,
    document: Json,
    result: dict[str, Any],
    expected: str | None,
    existing: Collection[str],
) -> None:
    """Whether a document has arrived, and as what it was exported."""
    status = result.get("status")
    if status not in ("indexed", "skipped"):
        problem = result.get("problem") or {"title": f"answered {status!r}"}
        reason = describe_problem(problem | {"requestId": None})
        restored.failures.append(Failure("backup", document["id"], reason))
    elif expected not in (None, result["contentHash"]):
        reason = f"arrived as other content: hash {result['contentHash']} for {expected}"
        restored.failures.append(Failure("backup", document["id"], reason))
    elif status == "indexed":
        restored.indexed += 1
        restored.overwritten += document["id"] in existing
    else:
        restored.skipped += 1
