"""Workers of the beta API: `/workers/workers` and their versions."""

import base64
import re
import sqlite3
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from infra.catalog import RESOURCE_NAME_CHARS
from local.api import bindings
from local.api.deploy import Deployer
from local.api.modules import ModuleStore
from local.api.requests import json_object, page
from local.api.uploads import Uploads, json_modules
from local.envelope import ApiError, JsonObject, ok
from local.state import State, Version, Worker, new_id, now

NOT_FOUND, NAME_INVALID, NAME_TAKEN, STILL_USED = 10007, 10016, 10040, 10064
VERSION_NOT_FOUND, VERSION_ACTIVE = 10215, 10216
DEFAULTS: JsonObject = {
    "logpush": False,
    "observability": {"enabled": False},
    "subdomain": {"enabled": False, "previews_enabled": False},
    "tags": [],
    "tail_consumers": [],
}


class WorkersApi:
    """Routes below `/accounts/{account_id}/workers/workers`."""

    def __init__(
        self,
        state: State,
        modules: ModuleStore,
        uploads: Uploads,
        deployer: Deployer,
        consumed_queues: Callable[[str], list[JsonObject]],
    ) -> None:
        self._state = state
        self._modules = modules
        self._uploads = uploads
        self._deployer = deployer
        self._consumed_queues = consumed_queues

    def routes(self) -> list[Route]:
        one = "/workers/workers/{worker_id}"
        return [
            Route("/workers/workers", self.create, methods=["POST"]),
            Route("/workers/workers", self.list_all, methods=["GET"]),
            Route(one, self.get, methods=["GET"]),
            Route(one, self.replace, methods=["PUT"]),
            Route(one, self.edit, methods=["PATCH"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(one + "/versions", self.create_version, methods=["POST"]),
            Route(one + "/versions", self.list_versions, methods=["GET"]),
            Route(one + "/versions/{version_id}", self.get_version, methods=["GET"]),
            Route(one + "/versions/{version_id}", self.delete_version, methods=["DELETE"]),
        ]

    # Workers

    async def create(self, request: Request) -> JSONResponse:
        body = await json_object(request)
        return ok(self.shown(self.add(checked_name(body.get("name")), body)))

    def add(self, name: str, body: JsonObject) -> Worker:
        time = now()
        worker = Worker(new_id(), name, time, time, spec_of(DEFAULTS, body))
        self._save(worker)
        return worker

    def _save(self, worker: Worker) -> None:
        try:
            self._state.save_worker(worker)
        except sqlite3.IntegrityError as error:
            raise ApiError(
                409, NAME_TAKEN, f"A Worker named '{worker.name}' already exists on this account."
            ) from error

    async def list_all(self, request: Request) -> JSONResponse:
        return page(request, [self.shown(worker) for worker in self._state.workers()])

    async def get(self, request: Request) -> JSONResponse:
        return ok(self.shown(self._worker(request)))

    async def replace(self, request: Request) -> JSONResponse:
        return await self._change(request, DEFAULTS)

    async def edit(self, request: Request) -> JSONResponse:
        return await self._change(request, self._worker(request).spec)

    async def _change(self, request: Request, base: JsonObject) -> JSONResponse:
        worker, body = self._worker(request), await json_object(request)
        name = checked_name(body.get("name", worker.name))
        worker.name, worker.spec, worker.updated_on = name, spec_of(base, body), now()
        self._save(worker)
        await self._deployer.apply(worker)
        return ok(self.shown(worker))

    async def delete(self, request: Request) -> JSONResponse:
        await self.remove(self._worker(request))
        return ok(None)

    async def remove(self, worker: Worker, *, force: bool = False) -> None:
        """Delete a Worker with its versions; refused while a queue or another Worker needs it."""
        if queues := [queue["queue_name"] for queue in self._consumed_queues(worker.name)]:
            raise ApiError(
                400, STILL_USED, f"{worker.name} is a consumer of {', '.join(queues)}: remove that first."
            )
        if (callers := self._callers(worker)) and not force:
            raise ApiError(400, STILL_USED, f"{worker.name} is bound as a service by {', '.join(callers)}.")
        versions = [version.id for version in self._state.versions(worker)]
        self._state.delete_worker(worker)
        await self._deployer.cells.reconcile()
        await self._forget(versions)

    async def _forget(self, versions: list[str]) -> None:
        async with self._modules.changing:
            self._modules.forget(versions, self._state.blobs())

    def _callers(self, worker: Worker) -> list[str]:
        return [
            other.name
            for other in self._state.workers()
            if other.id != worker.id
            and (version := self._deployer.running_version(other)) is not None
            and any(
                binding["type"] == "service" and binding["service"] == worker.name
                for binding in version.bindings
            )
        ]

    def shown(self, worker: Worker) -> JsonObject:
        """A Worker as the API answers it; its address is that of its own port here."""
        url = f"http://127.0.0.1:{self._state.port(worker.name)}"
        callers = [self._state.worker(name) for name in self._callers(worker)]
        return {
            **worker.spec,
            "id": worker.id,
            "name": worker.name,
            "created_on": worker.created_on,
            "updated_on": worker.updated_on,
            "deployed_on": worker.deployed_on,
            "subdomain": {**worker.spec["subdomain"], "url": url},
            "references": {
                "dispatch_namespace_outbounds": [],
                "domains": [],
                "durable_objects": [],
                "queues": [
                    {
                        "queue_id": queue["queue_id"],
                        "queue_name": queue["queue_name"],
                        "queue_consumer_id": queue["consumer_id"],
                    }
                    for queue in self._consumed_queues(worker.name)
                ],
                "workers": [{"id": other.id, "name": other.name} for other in callers if other],
            },
        }

    def _worker(self, request: Request) -> Worker:
        return find(self._state, request.path_params["worker_id"])

    # versions

    async def create_version(self, request: Request) -> JSONResponse:
        worker, body = self._worker(request), await json_object(request)
        uploads = json_modules(body)
        version = await self._uploads.add(worker, body, uploads)
        if request.query_params.get("deploy") == "true":
            await self._deployer.deploy(worker, [{"version_id": version.id, "percentage": 100}])
        return ok(shown_version(version))

    async def list_versions(self, request: Request) -> JSONResponse:
        return page(request, [shown_version(v) for v in self._state.versions(self._worker(request))])

    async def get_version(self, request: Request) -> JSONResponse:
        version = self._version(request)
        shown = shown_version(version)
        if request.query_params.get("include") == "modules":
            shown["modules"] = [
                {
                    "name": module.name,
                    "content_type": module.content_type,
                    "content_base64": base64.b64encode(self._modules.content(module)).decode(),
                }
                for module in version.modules
            ]
        return ok(shown)

    async def delete_version(self, request: Request) -> JSONResponse:
        worker, version = self._worker(request), self._version(request)
        active = self._state.active(worker)
        if active and any(item["version_id"] == version.id for item in active.versions):
            raise ApiError(400, VERSION_ACTIVE, f"The version {version.id} is deployed and can't be deleted.")
        self._state.delete_version(version)
        await self._forget([version.id])
        return ok(None)

    def _version(self, request: Request) -> Version:
        return find_version(self._state, self._worker(request), request.path_params["version_id"])


def find(state: State, ident: str) -> Worker:
    """A Worker by id or name; 404 as Cloudflare words it."""
    if worker := state.worker(ident):
        return worker
    raise ApiError(404, NOT_FOUND, f"This Worker does not exist on your account: {ident}")


def find_version(state: State, worker: Worker, ident: str) -> Version:
    if version := state.version(worker, ident):
        return version
    raise ApiError(404, VERSION_NOT_FOUND, f"The version {ident} of {worker.name} does not exist.")


def checked_name(name: object) -> str:
    limit = RESOURCE_NAME_CHARS.value
    if isinstance(name, str) and len(name) <= limit and re.fullmatch(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?", name):
        return name
    raise ApiError(
        400,
        NAME_INVALID,
        f"The name of a Worker is 1 to {limit} of a-z, 0-9, - and _, not {name!r}.",
    )


def spec_of(base: JsonObject, body: JsonObject) -> JsonObject:
    """The settings of a Worker: those given, one level deep over `base`."""
    spec = dict(base)
    for key in DEFAULTS:
        given = body.get(key)
        if given is None:
            continue
        if not isinstance(given, type(DEFAULTS[key])):
            raise ApiError(400, NAME_INVALID, f"{key} has the wrong type.")
        spec[key] = {**base[key], **given} if isinstance(given, dict) else given
    spec["subdomain"] = {key: spec["subdomain"][key] for key in DEFAULTS["subdomain"]}
    return spec


def shown_version(version: Version) -> JsonObject:
    """A version as the beta API answers it, without its modules."""
    return {
        "compatibility_date": None,
        "compatibility_flags": [],
        "usage_model": "standard",
        "annotations": {},
        **version.spec,
        "id": version.id,
        "number": version.number,
        "created_on": version.created_on,
        "source": version.source,
        "bindings": [bindings.shown(binding) for binding in version.bindings],
        "urls": [],
        "author_email": "local@localhost",
    }
