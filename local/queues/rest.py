"""The Queues REST API below `/accounts/{account_id}`."""

import json
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from local import limits
from local.envelope import ok
from local.faults import Faults
from local.queues.service import QueueService

JsonObject = dict[str, Any]


def routes(service: QueueService, faults: Faults) -> list[Route]:
    """Routes to mount below `/client/v4/accounts/{account_id}`; the server adds authentication."""
    api = _Api(service, faults)
    one = "/queues/{queue}"
    consumer = one + "/consumers/{consumer}"
    return [
        Route("/queues", api.create, methods=["POST"]),
        Route("/queues", api.list_queues, methods=["GET"]),
        Route(one, api.get, methods=["GET"]),
        Route(one, api.update, methods=["PUT", "PATCH"]),
        Route(one, api.delete, methods=["DELETE"]),
        Route(one + "/metrics", api.metrics, methods=["GET"]),
        Route(one + "/consumers", api.create_consumer, methods=["POST"]),
        Route(one + "/consumers", api.list_consumers, methods=["GET"]),
        Route(consumer, api.get_consumer, methods=["GET"]),
        Route(consumer, api.update_consumer, methods=["PUT"]),
        Route(consumer, api.delete_consumer, methods=["DELETE"]),
        Route(one + "/purge", api.purge, methods=["POST"]),
        Route(one + "/purge", api.purge_status, methods=["GET"]),
        Route(one + "/messages", api.message_call("send", service.push), methods=["POST"]),
        Route(one + "/messages/batch", api.message_call("send", service.push_batch), methods=["POST"]),
        Route(one + "/messages/pull", api.message_call("pull", service.pull), methods=["POST"]),
        Route(one + "/messages/ack", api.message_call("ack", service.ack), methods=["POST"]),
        Route(one + "/messages/peek", api.message_call("peek", service.peek), methods=["POST"]),
        Route(one + "/messages/purge", api.message_call("purge", service.purge_messages), methods=["POST"]),
    ]


class _Api:
    def __init__(self, service: QueueService, faults: Faults) -> None:
        self._service = service
        self._faults = faults

    async def create(self, request: Request) -> JSONResponse:
        body = await _json(request)
        return await _answer(self._service.create_queue, body.get("queue_name"), body.get("settings"))

    async def list_queues(self, request: Request) -> JSONResponse:
        return await _page(self._service.list_queues, request.query_params.get("name"))

    async def get(self, request: Request) -> JSONResponse:
        return await _answer(self._service.get_queue, _queue(request))

    async def update(self, request: Request) -> JSONResponse:
        body, partial = await _json(request), request.method == "PATCH"
        return await _answer(self._service.update_queue, _queue(request), body, partial)

    async def delete(self, request: Request) -> JSONResponse:
        return await _answer(self._service.delete_queue, _queue(request))

    async def metrics(self, request: Request) -> JSONResponse:
        return await _answer(self._service.metrics, _queue(request))

    async def create_consumer(self, request: Request) -> JSONResponse:
        return await _answer(self._service.create_consumer, _queue(request), await _json(request))

    async def list_consumers(self, request: Request) -> JSONResponse:
        return await _page(self._service.list_consumers, _queue(request))

    async def get_consumer(self, request: Request) -> JSONResponse:
        return await _answer(self._service.get_consumer, _queue(request), request.path_params["consumer"])

    async def update_consumer(self, request: Request) -> JSONResponse:
        body, consumer = await _json(request), request.path_params["consumer"]
        return await _answer(self._service.update_consumer, _queue(request), consumer, body)

    async def delete_consumer(self, request: Request) -> JSONResponse:
        return await _answer(self._service.delete_consumer, _queue(request), request.path_params["consumer"])

    async def purge(self, request: Request) -> JSONResponse:
        body = await _json(request)
        if body.get("delete_messages_permanently") is not True:
            raise limits.QUEUE_BODY(problem="delete_messages_permanently must be true")
        return await _answer(self._service.purge, _queue(request))

    async def purge_status(self, request: Request) -> JSONResponse:
        return await _answer(self._service.purge_status, _queue(request))

    def message_call(self, op: str, work: Callable[[str, JsonObject], JsonObject]) -> Callable[..., Any]:
        async def call(request: Request) -> JSONResponse:
            body = await _json(request)
            async with self._faults.call("queue", op):
                return await _answer(work, _queue(request), body)

        return call


def _queue(request: Request) -> str:
    return str(request.path_params["queue"])


async def _answer(work: Callable[..., Any], *args: Any) -> JSONResponse:
    return ok(await run_in_threadpool(work, *args))


async def _page(work: Callable[..., list[JsonObject]], *args: Any) -> JSONResponse:
    found = await run_in_threadpool(work, *args)
    count = len(found)
    info = {"count": count, "page": 1, "per_page": max(count, 1), "total_count": count, "total_pages": 1}
    return ok(found, result_info=info)


async def _json(request: Request) -> JsonObject:
    try:
        body = json.loads(await request.body() or b"{}")
    except ValueError as error:
        raise limits.QUEUE_JSON() from error
    if not isinstance(body, dict):
        raise limits.QUEUE_BODY(problem="expected an object")
    return body
