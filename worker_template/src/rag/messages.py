"""Messages of the ingest queue: what they hold, and sending them in batches that the queue takes."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from rag.bindings import Queue
from rag.jsonsafe import compact, plain, size
from rag.settings import GET_IDS, QUEUE_SEND_BATCH, QUEUE_SEND_BATCH_BYTES
from rag.timing import span

WorkKind = Literal["reindex", "backfill", "verify"]

# What the queue itself adds to a message, within its limits on bytes.
OVERHEAD_BYTES = 100

Message = dict[str, Any]


def work(kind: WorkKind, ids: Sequence[str], delay: int = 0) -> list[Message]:
    """Messages for documents by id, each with as many as can be read from the index in one call."""
    groups = [list(ids[at : at + GET_IDS]) for at in range(0, len(ids), GET_IDS)]
    return [_delayed({"kind": kind, "ids": group, "_reindexFromQueue": True}, delay) for group in groups]


def sweep(cursor: str = "", delay: int = 0) -> Message:
    """The message that continues a sweep at a cursor; without one it begins a new sweep."""
    return _delayed({"kind": "sweep", "cursor": cursor}, delay)


def _delayed(body: dict[str, Any], seconds: int) -> Message:
    return {"body": body, **({"delaySeconds": seconds} if seconds else {})}


def message_bytes(body: Any) -> int:
    """What a message counts for: its JSON and the queue's own part."""
    return size(body) + OVERHEAD_BYTES


def batches(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """The messages in order, in groups of at most 100 and 256 KB."""
    group: list[Message] = []
    used = 0
    for message in messages:
        needed = message_bytes(message["body"])
        if group and (len(group) == QUEUE_SEND_BATCH or used + needed > QUEUE_SEND_BATCH_BYTES):
            yield group
            group, used = [], 0
        group.append(message)
        used += needed
    if group:
        yield group


async def send(queue: Queue, messages: Sequence[Message]) -> None:
    """Send all of them, in order; what the runtime raises is raised after what it took before."""
    for group in batches(messages):
        async with span("queue"):
            await queue.sendBatch(plain(group))


def label(body: Any) -> str:
    """What a message is, for logs: without the document's text."""
    if not isinstance(body, dict):
        return type(body).__name__
    return "document" if "doc" in body else compact(body.get("kind"))[:40]
