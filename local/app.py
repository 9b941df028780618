"""The local Cloudflare as one ASGI application: its REST API, its bindings, its controls."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Mount, Route

from local.api.account import AccountApi
from local.api.bindings import BindingChecker, Existing
from local.api.control import ControlApi
from local.api.d1 import D1Api
from local.api.deploy import Deployer
from local.api.guard import Budget, Credentials, Guard, no_route
from local.api.modules import ModuleStore
from local.api.scripts import ScriptsApi
from local.api.services import ServicesApi
from local.api.uploads import Uploads
from local.api.workers import WorkersApi
from local.cells import Cells
from local.engines import Engines
from local.envelope import ApiError, failed, on_api_error
from local.state import State

API = "/client/v4"
ACCOUNT = API + "/accounts/{account_id}"


class Local:
    """Everything that one state folder holds, wired together. `app` serves it."""

    def __init__(
        self, home: Path, credentials: Credentials, url: str, *, cell_command: Sequence[str] = ()
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.state = State(home / "control.db")
        self._modules = modules = ModuleStore(home)
        self.deployer = Deployer(self.state, modules)
        self.cells = Cells(
            home,
            self.deployer.wanted,
            bindings_url=url,
            token=credentials.bindings_token,
            command=cell_command,
        )
        self.deployer.cells = self.cells
        self.engines = Engines(
            home,
            deliver=self.cells.deliver,
            kill_cell=self.cells.kill,
            producers=self.deployer.producers,
        )
        existing = Existing(self.engines.has_index, self.engines.has_queue)
        uploads = Uploads(self.state, modules, BindingChecker(self.state, existing))
        workers = WorkersApi(self.state, modules, uploads, self.deployer, self.engines.consumed_queues)
        budget = Budget()
        account = AccountApi(self.state, credentials)
        self._control = ControlApi(self.state, self.cells, self.deployer, self.engines, budget)
        self._account_routes: list[Route] = [
            *D1Api(self.state, self.cells).routes(),
            *workers.routes(),
            *ScriptsApi(self.state, uploads, self.deployer, workers).routes(),
            *ServicesApi(self.state, workers).routes(),
            *account.routes(),
            *self.engines.account_routes(),
        ]
        self.app = Starlette(
            routes=[*self._routes(account)],
            middleware=[Middleware(Guard, credentials=credentials, budget=budget)],
            exception_handlers={ApiError: on_api_error, HTTPException: _on_http_error, Exception: _on_bug},
            lifespan=self._lifespan,
        )
        self.app.state.kill_cell = self.cells.kill

    def _routes(self, account: AccountApi) -> list[BaseRoute]:
        top = account.top_routes()
        return [
            *self._control.routes(),
            *self.engines.top_routes(self.cells.set_d1_faults),
            Mount(ACCOUNT, routes=self._account_routes),
            Mount(API, routes=top),
        ]

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.cells.end_leftovers()
        self._modules.tidy({worker["versionId"] for worker in self.deployer.wanted()[0]})
        await self._control.apply_settings()
        await self.cells.reconcile()
        self.engines.start()
        try:
            yield
        finally:
            await self.engines.stop()
            await self.cells.stop()
            self.state.close()


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    """Starlette's own 404 and 405, in Cloudflare's words."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return failed(no_route(request.url.path))
    if error.status_code == 405:
        message = f"{request.method} is not allowed on {request.url.path}."
        return failed(ApiError(405, 10405, message, error.headers))
    return failed(ApiError(error.status_code, 10000, str(error.detail)))


async def _on_bug(_: Request, error: Exception) -> JSONResponse:
    return failed(ApiError(500, 10013, f"An unknown error has occurred: {type(error).__name__}."))
