"""The older `/workers/services` view of a Worker, which wrangler asks before and after a deploy."""

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from local.api.scripts import script
from local.api.workers import WorkersApi
from local.envelope import ApiError, ok
from local.state import State, Worker

SERVICE_NOT_FOUND = 10090
ENVIRONMENT = "production"


class ServicesApi:
    """Routes below `/accounts/{account_id}/workers/services`: one environment per Worker."""

    def __init__(self, state: State, workers: WorkersApi) -> None:
        self._state = state
        self._workers = workers

    def routes(self) -> list[Route]:
        one = "/workers/services/{service_name}"
        return [
            Route(one, self.get, methods=["GET"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(one + "/environments/{environment}", self.get_environment, methods=["GET"]),
        ]

    def _worker(self, request: Request) -> Worker:
        if worker := self._state.worker(request.path_params["service_name"]):
            return worker
        raise ApiError(404, SERVICE_NOT_FOUND, "workers.api.error.service_not_found")

    async def get(self, request: Request) -> JSONResponse:
        worker = self._worker(request)
        environment = self._environment(worker)
        return ok(
            {
                "id": worker.name,
                "default_environment": environment,
                "environments": [environment],
                "created_on": worker.created_on,
                "modified_on": worker.updated_on,
            }
        )

    async def get_environment(self, request: Request) -> JSONResponse:
        return ok(self._environment(self._worker(request)))

    def _environment(self, worker: Worker) -> dict[str, object]:
        latest = self._state.version(worker, "latest")
        return {
            "environment": ENVIRONMENT,
            "created_on": worker.created_on,
            "modified_on": worker.updated_on,
            "script": {**script(worker), "last_deployed_from": latest.source if latest else "api"},
        }

    async def delete(self, request: Request) -> JSONResponse:
        await self._workers.remove(self._worker(request), force=request.query_params.get("force") == "true")
        return ok(None)
