"""The endpoints behind a Worker's bindings: the same engines, limits and faults as the REST API."""

from collections.abc import Callable
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route

from infra import catalog
from local import limits
from local.ai.inputs import AiError
from local.ai.service import EmbeddingService
from local.envelope import ApiError, JSONResponse
from local.faults import Faults, Target
from local.queues.service import QueueService
from local.vectorize.service import VectorizeService

# The runtime names the operation in front of Vectorize's own message.
_VECTORIZE_ERRORS = {
    "query": "VECTOR_QUERY_ERROR",
    "queryById": "VECTOR_QUERY_ERROR",
    "insert": "VECTOR_INSERT_ERROR",
    "upsert": "VECTOR_UPSERT_ERROR",
    "getByIds": "VECTOR_GET_ERROR",
    "deleteByIds": "VECTOR_DELETE_ERROR",
    "describe": "INDEX_GET_ERROR",
}


def routes(
    vectorize: VectorizeService, ai: EmbeddingService, queues: QueueService, faults: Faults
) -> list[Route]:
    """Routes below `/__bindings/`, by their whole path; the server adds authentication.

    Every answer is a 200 with `{"ok": result}` or `{"error": {"message", "code"}}`, worded as the
    binding's own exception.
    """
    bindings = _Bindings(vectorize, ai, queues, faults)
    return [
        Route("/__bindings/vectorize/{index}/{op}", bindings.vectorize, methods=["POST"]),
        Route("/__bindings/ai/{model:path}", bindings.ai, methods=["POST"]),
        Route("/__bindings/queue/{queue}/send", bindings.send, methods=["POST"]),
        Route("/__bindings/d1/{op}", bindings.d1, methods=["POST"]),
    ]


class _Bindings:
    def __init__(
        self,
        vectorize: VectorizeService,
        ai: EmbeddingService,
        queues: QueueService,
        faults: Faults,
    ) -> None:
        self._vectorize = vectorize
        self._ai = ai
        self._queues = queues
        self._faults = faults

    async def vectorize(self, request: Request) -> JSONResponse:
        op, index = request.path_params["op"], request.path_params["index"]
        args = await _body(request)
        try:
            work = self._vectorize_call(index, op, args)
            return await self._call(request, "vectorize", op, work)
        except ApiError as error:
            name = _VECTORIZE_ERRORS.get(op, "VECTORIZE_ERROR")
            return _failed(error, f"{name} (code = {error.code}): {error.message}")

    async def ai(self, request: Request) -> JSONResponse:
        model, body = request.path_params["model"], await _body(request)
        raw = body.get("input") if isinstance(body, dict) else None
        try:
            return await self._call(request, "ai", "run", lambda: self._ai.run(model, raw))
        except ApiError as error:
            text = error.description if isinstance(error, AiError) else error.message
            return _failed(error, f"{error.code}: {text}")

    async def send(self, request: Request) -> JSONResponse:
        name, body = request.path_params["queue"], await _body(request)
        messages = body.get("messages") if isinstance(body, dict) else None
        try:
            return await self._call(request, "queue", "send", lambda: self._queues.send(name, messages))
        except ApiError as error:
            return _failed(error, f"{error.message} ({error.code})")

    async def d1(self, request: Request) -> JSONResponse:
        """Asked around each D1 call while D1 faults are on: body `{worker, op, phase}`.

        Phase "before" (the default) counts and may fail; `{"ok": {"after": true}}` asks for a second
        call with phase "after" once the statement has run.
        """
        body = await _body(request)
        worker = str(body["worker"]) if isinstance(body, dict) and "worker" in body else _worker(request)
        try:
            if isinstance(body, dict) and body.get("phase") == "after":
                await self._faults.kill(worker)
                return JSONResponse({"ok": {"after": False}})
            after = await self._faults.before("d1", request.path_params["op"], worker)
            return JSONResponse({"ok": {"after": after}})
        except ApiError as error:
            return _failed(error, error.message)

    def _vectorize_call(self, index: str, op: str, args: Any) -> Callable[[], Any]:
        service = self._vectorize
        if not isinstance(args, list):
            raise limits.JSON_UNPARSABLE(problem="expected an array of arguments")
        first, second = (*args, None, None)[:2]
        if op in ("insert", "upsert"):
            vectors = first if isinstance(first, list) else [first]
            if len(vectors) > catalog.VECTORIZE_UPSERT_BINDING.value:
                raise limits.UPSERT_BINDING(actual=len(vectors))
            return lambda: service.write(index, vectors, "insert" if op == "insert" else "upsert")
        calls: dict[str, Callable[[], Any]] = {
            "query": lambda: service.query(index, first, second or {}),
            "queryById": lambda: service.query_by_id(index, first, second or {}),
            "getByIds": lambda: service.get_by_ids(index, first),
            "deleteByIds": lambda: service.delete_by_ids(index, first),
            "describe": lambda: service.info(index),
        }
        if op not in calls:
            raise limits.JSON_UNPARSABLE(problem=f"unknown operation {op!r}")
        return calls[op]

    async def _call(self, request: Request, target: Target, op: str, work: Callable[[], Any]) -> JSONResponse:
        async with self._faults.call(target, op, _worker(request)):
            return JSONResponse({"ok": await run_in_threadpool(work)})


async def _body(request: Request) -> Any:
    try:
        return orjson.loads(await request.body() or b"null")
    except ValueError as error:
        raise limits.JSON_UNPARSABLE(problem=str(error)) from error


def _worker(request: Request) -> str | None:
    return request.headers.get("x-cfrag-worker")


def _failed(error: ApiError, message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "code": error.code}})
