"""The product engines next to Workers and D1: Vectorize, Workers AI, Queues, and the faults for all."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from local import ai, bindings, faults, queues, vectorize
from local.cell_process import CellDown
from local.envelope import ApiError, JsonObject

Deliver = Callable[[str, str, list[JsonObject]], Awaitable[JsonObject]]
Switch = Callable[[bool], Awaitable[None]]


class Engines:
    """One place that knows how the engines are made, connected and asked.

    `deliver` calls the queue handler of a Worker, `kill_cell` ends its process, `producers`
    names the Workers that send to a queue.
    """

    def __init__(
        self,
        home: Path,
        *,
        deliver: Deliver,
        kill_cell: Callable[[str], None],
        producers: Callable[[str], list[str]],
    ) -> None:
        self._vectorize = vectorize.VectorizeService(home / "vectorize.db")
        self._ai = ai.EmbeddingService()
        self._queues = queues.QueueService(home / "queues.db")
        self._queues.producers = producers
        self._faults = faults.Faults(kill_cell)
        self._deliver = deliver
        self._dispatcher = queues.Dispatcher(self._queues.broker, self._handle)
        self._dispatching: asyncio.Task[None] | None = None

    def account_routes(self) -> list[Route]:
        """Routes below `/accounts/{account_id}`."""
        return [
            *vectorize.routes(self._vectorize, self._faults),
            *ai.routes(self._ai, self._faults),
            *queues.routes(self._queues, self._faults),
        ]

    def top_routes(self, set_d1_faults: Switch) -> list[Route]:
        """The bindings' routes and the fault switches, by their whole path."""
        switches = [_watching_d1(route, set_d1_faults) for route in faults.routes(self._faults)]
        return [
            *bindings.routes(self._vectorize, self._ai, self._queues, self._faults),
            *switches,
        ]

    def start(self) -> None:
        self._dispatching = asyncio.create_task(self._dispatcher.run(), name="queues")

    async def _handle(self, worker: str, queue: str, messages: list[JsonObject]) -> JsonObject:
        try:
            return await self._deliver(worker, queue, messages)
        except CellDown as error:
            raise queues.Undeliverable(str(error)) from error

    async def stop(self) -> None:
        """End deliveries and close the files. What was under way is delivered again after a start."""
        if self._dispatching:
            self._dispatching.cancel()
            await asyncio.gather(self._dispatching, return_exceptions=True)
        self._vectorize.close()
        self._queues.close()

    def set_vectorize_delay(self, seconds: float) -> None:
        self._vectorize.delay = seconds

    def pause_deliveries(self, paused: bool) -> None:
        self._dispatcher.pause(paused)

    # what others ask about

    def has_index(self, name: str) -> bool:
        try:
            self._vectorize.describe_index(name)
        except ApiError:
            return False
        return True

    def has_queue(self, name: str) -> bool:
        return bool(self._queues.list_queues(name))

    def consumed_queues(self, worker: str) -> list[JsonObject]:
        """The consumers that are `worker`, as the queues list them."""
        return [
            {**consumer, "queue_id": queue["queue_id"]}
            for queue in self._queues.list_queues()
            for consumer in queue["consumers"]
            if consumer.get("script") == worker
        ]

    def indexes(self) -> list[JsonObject]:
        return [
            {
                "name": index["name"],
                **index["config"],
                "vectors": self._vectorize.info(index["name"])["vectorCount"],
            }
            for index in self._vectorize.list_indexes()
        ]

    def queues(self) -> list[JsonObject]:
        return [
            {
                "name": queue["queue_name"],
                "backlog": self._queues.metrics(queue["queue_id"])["backlog_count"],
                "consumer": next((c.get("script", c["type"]) for c in queue["consumers"]), None),
            }
            for queue in self._queues.list_queues()
        ]


def _watching_d1(route: Route, set_d1_faults: Switch) -> Route:
    """Faults and counters see D1 calls only while the cells report them: from the first use on."""
    methods = set(route.methods or ()) - {"HEAD"}
    if methods != {"POST"}:
        return route

    async def call(request: Request) -> Response:
        await set_d1_faults(True)
        answer: Response = await route.endpoint(request)
        return answer

    return Route(route.path, call, methods=["POST"])
