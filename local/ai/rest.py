"""Workers AI's REST API below `/accounts/{account_id}`."""

import json

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from local.ai.inputs import bad_input
from local.ai.service import EmbeddingService
from local.envelope import ok
from local.faults import Faults


def routes(service: EmbeddingService, faults: Faults) -> list[Route]:
    """Routes to mount below `/client/v4/accounts/{account_id}`; the server adds authentication."""

    async def run(request: Request) -> JSONResponse:
        try:
            raw = json.loads(await request.body())
        except ValueError as error:
            raise bad_input("the request body is not JSON") from error
        async with faults.call("ai", "run"):
            return ok(await run_in_threadpool(service.run, request.path_params["model"], raw))

    return [Route("/ai/run/{model:path}", run, methods=["POST"])]
