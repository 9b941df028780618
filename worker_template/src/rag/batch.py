"""Several documents at once: a result for each, in order, whatever happens to its neighbours."""

from collections.abc import Sequence
from typing import Any

from rag import core
from rag.bindings import Bindings
from rag.errors import Problem
from rag.schemas import BatchResult, Document, FailedResult, IngestResult


async def ingest_batch(
    env: Bindings, entries: Sequence[Any], *, source: str, request_id: str | None = None
) -> BatchResult:
    """Ingest those entries that are documents; an entry that is a `Problem` is its own result."""
    valid = documents_of(entries)
    done = await core.ingest_docs(env, valid, source=source) if valid else []
    return results_of(entries, done, request_id)


def documents_of(entries: Sequence[Any]) -> list[Any]:
    """Those entries that are documents."""
    return [entry for entry in entries if isinstance(entry, Document)]


def results_of(
    entries: Sequence[Any], done: Sequence[IngestResult | Problem], request_id: str | None
) -> BatchResult:
    """A result for each entry, given those of the documents among them."""
    ingested = iter(done)
    outcomes = [next(ingested) if isinstance(entry, Document) else entry for entry in entries]
    return BatchResult(results=[_result(*pair, request_id) for pair in zip(entries, outcomes, strict=True)])


def _result(entry: Any, outcome: Any, request_id: str | None) -> IngestResult | FailedResult:
    if isinstance(outcome, Problem):
        doc_id = entry.id if isinstance(entry, Document) else outcome.document_id
        return FailedResult(id=doc_id, problem=outcome.to_dict(request_id))
    result: IngestResult = outcome
    return result
