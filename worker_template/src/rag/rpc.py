"""RPC for other Workers: plain values in and out, and problems as values, as exceptions don't cross well."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec
from uuid import uuid4

from pydantic import BaseModel, TypeAdapter

from rag import core, logs, timing
from rag import schemas as s
from rag import values as v
from rag.batch import ingest_batch as ingest_entries
from rag.bindings import Bindings
from rag.edge import problem_of
from rag.errors import Problem

P = ParamSpec("P")
_ID: TypeAdapter[str] = TypeAdapter(v.DocumentId)


def _answered(
    function: Callable[P, Coroutine[Any, Any, BaseModel]],
) -> Callable[P, Coroutine[Any, Any, dict[str, Any]]]:
    """Turn the result into JSON values and every failure into `{"error": problem}`, with one log line."""

    @wraps(function)
    async def answer(*args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        counts, call_id = timing.start(), uuid4().hex
        logs.request_id.set(call_id)
        problem: Problem | None = None
        try:
            result = await function(*args, **kwargs)
            return result.model_dump(mode="json", by_alias=True)
        except Exception as error:  # noqa: BLE001 - no exception crosses the boundary
            problem = problem_of(error)
            if problem.type == "internal":
                logs.log_exception("unexpected error", error)
            return {"error": problem.to_dict(call_id)}
        finally:
            level: logs.Level = "error" if problem and problem.status >= 500 else "info"
            kind = problem.type if problem else None
            logs.log(level, "rpc", method=function.__name__, calls=counts.calls, problem=kind)

    return answer


@_answered
async def ingest(env: Bindings, document: Any) -> BaseModel:
    (result,) = await core.ingest_docs(env, [s.Document.model_validate(document)], source="rpc")
    if isinstance(result, Problem):
        raise result
    return result


@_answered
async def ingest_batch(env: Bindings, documents: Any) -> BaseModel:
    # An array, or the object that HTTP takes.
    batch = s.BatchRequest.model_validate(
        {"documents": documents} if isinstance(documents, list) else documents
    )
    return await ingest_entries(env, batch.documents, source="rpc", request_id=logs.request_id.get())


@_answered
async def search(env: Bindings, request: Any) -> BaseModel:
    return await core.search_docs(env, s.SearchRequest.model_validate(request))


@_answered
async def get(env: Bindings, doc_id: Any) -> BaseModel:
    return await core.get_doc(env, _ID.validate_python(doc_id))


@_answered
async def delete(env: Bindings, doc_id: Any) -> BaseModel:
    (result,) = await core.delete_docs(env, [_ID.validate_python(doc_id)])
    return result


@_answered
async def stats(env: Bindings) -> BaseModel:
    return await core.get_stats(env)
