"""Documents for the queue: checked now, in messages and batches of legal size, ingested later."""

from collections.abc import Iterator, Sequence
from typing import Any

from rag.bindings import Bindings, Queue
from rag.errors import Problem, too_large, unavailable
from rag.jsonsafe import size
from rag.schemas import Document, EnqueueResult, FailedResult, QueuedResult
from rag.settings import QUEUE_MESSAGE_BYTES, QUEUE_SEND_BATCH, QUEUE_SEND_BATCH_BYTES
from rag.timing import span

# What the platform adds to each message, which counts too.
_OVERHEAD = 100
_RETRY_SECONDS = 30


async def enqueue(env: Bindings, entries: Sequence[Any], request_id: str | None = None) -> EnqueueResult:
    """Queue those entries that are documents; a `Problem` is its own result.

    Raises the 503 of an overloaded queue, with the ids of all that were not accepted as `notAccepted`.
    """
    if env.queue is None:
        raise unavailable("the Worker has no queue: deploy it with RAG_INGEST_QUEUE")
    messages = {position: _message(entry) for position, entry in enumerate(entries)}
    good = {at: each for at, each in messages.items() if not isinstance(each, Problem)}
    await _send_all(env.queue, list(good.values()))
    return EnqueueResult(results=[_result(each, messages[at], request_id) for at, each in enumerate(entries)])


def _message(entry: Any) -> dict[str, Any] | Problem:
    """The queue's message for a document, or what is wrong with it."""
    if isinstance(entry, Problem):
        return entry
    body = {"doc": entry.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
    needed = size(body) + _OVERHEAD
    if needed > QUEUE_MESSAGE_BYTES:
        what = f"the message for the document {entry.id!r}"
        return too_large(what, field="body", limit=QUEUE_MESSAGE_BYTES, actual=needed)
    return body


def _result(entry: Any, message: Any, request_id: str | None) -> QueuedResult | FailedResult:
    if isinstance(message, Problem):
        doc_id = entry.id if isinstance(entry, Document) else message.document_id
        return FailedResult(id=doc_id, problem=message.to_dict(request_id))
    return QueuedResult(id=entry.id)


async def _send_all(queue: Queue, messages: list[dict[str, Any]]) -> None:
    sent = 0
    for chunk in chunks(messages):
        try:
            async with span("queue"):
                await queue.sendBatch([{"body": body, "contentType": "json"} for body in chunk])
        except Exception as error:
            left = [body["doc"]["id"] for body in messages[sent:]]
            detail = f"the queue took {sent} of {len(messages)} documents: {str(error)[:200]}"
            raise unavailable(detail, retry_after=_RETRY_SECONDS, extra={"notAccepted": left}) from error
        sent += len(chunk)


def chunks(messages: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The messages in batches that `sendBatch` takes: by number and by bytes."""
    chunk: list[dict[str, Any]] = []
    total = 0
    for message in messages:
        needed = size(message) + _OVERHEAD
        if chunk and (len(chunk) == QUEUE_SEND_BATCH or total + needed > QUEUE_SEND_BATCH_BYTES):
            yield chunk
            chunk, total = [], 0
        chunk.append(message)
        total += needed
    if chunk:
        yield chunk
