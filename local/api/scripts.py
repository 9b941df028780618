"""Workers of the scripts API: deployments, subdomain, secrets and multipart uploads."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from local.api import deploy
from local.api.bindings import shown as shown_binding
from local.api.deploy import Deployer
from local.api.requests import json_object, text
from local.api.uploads import Uploads, multipart
from local.api.workers import WorkersApi, checked_name, find, find_version, spec_of
from local.envelope import ApiError, JsonObject, ok
from local.state import Deployment, State, Version, Worker, now

SCRIPT_SETTINGS = ("logpush", "observability", "tags", "tail_consumers")


class ScriptsApi:
    """Routes below `/accounts/{account_id}/workers/scripts`."""

    def __init__(self, state: State, uploads: Uploads, deployer: Deployer, workers: WorkersApi) -> None:
        self._state = state
        self._uploads = uploads
        self._deployer = deployer
        self._workers = workers

    def routes(self) -> list[Route]:
        one = "/workers/scripts/{script_name}"
        return [
            Route("/workers/scripts", self.list_all, methods=["GET"]),
            Route(one, self.upload, methods=["PUT"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(one + "/deployments", self.deploy, methods=["POST"]),
            Route(one + "/deployments", self.list_deployments, methods=["GET"]),
            Route(one + "/deployments/{deployment_id}", self.get_deployment, methods=["GET"]),
            Route(one + "/deployments/{deployment_id}", self.delete_deployment, methods=["DELETE"]),
            Route(one + "/subdomain", self.get_subdomain, methods=["GET"]),
            Route(one + "/subdomain", self.set_subdomain, methods=["POST", "DELETE"]),
            Route(one + "/secrets", self.list_secrets, methods=["GET"]),
            Route(one + "/secrets", self.put_secret, methods=["PUT"]),
            Route(one + "/secrets/{secret_name}", self.get_secret, methods=["GET"]),
            Route(one + "/secrets/{secret_name}", self.delete_secret, methods=["DELETE"]),
            Route(one + "/settings", self.settings, methods=["GET"]),
            Route(one + "/script-settings", self.script_settings, methods=["GET"]),
            Route(one + "/script-settings", self.edit_script_settings, methods=["PATCH"]),
            Route(one + "/versions", self.create_version, methods=["POST", "PUT"]),
            Route(one + "/versions", self.list_versions, methods=["GET"]),
            Route(one + "/versions/{version_id}", self.get_version, methods=["GET"]),
        ]

    def _worker(self, request: Request) -> Worker:
        return find(self._state, request.path_params["script_name"])

    async def list_all(self, request: Request) -> JSONResponse:
        return ok([script(worker) for worker in self._state.workers()])

    async def upload(self, request: Request) -> JSONResponse:
        """Upload and deploy at once, creating the Worker where there is none."""
        name = checked_name(request.path_params["script_name"])
        spec, files = await multipart(request)
        worker = self._state.worker(name) or self._workers.add(name, spec)
        version = await self._uploads.add(worker, spec, files, drop_unknown=not _strict(request))
        await self._deployer.deploy(worker, _all(version))
        return ok({**script(worker), "deployment_id": version.id, "startup_time_ms": 0})

    async def delete(self, request: Request) -> JSONResponse:
        await self._workers.remove(self._worker(request), force=request.query_params.get("force") == "true")
        return ok(None)

    # deployments

    async def deploy(self, request: Request) -> JSONResponse:
        worker, body = self._worker(request), await json_object(request)
        versions = self._deployer.checked(worker, body)
        return ok(deploy.shown(await self._deployer.deploy(worker, versions, body.get("annotations"))))

    async def list_deployments(self, request: Request) -> JSONResponse:
        found = self._state.deployments(self._worker(request))
        return ok({"deployments": [deploy.shown(deployment) for deployment in found]})

    async def get_deployment(self, request: Request) -> JSONResponse:
        return ok(deploy.shown(self._deployment(request)))

    async def delete_deployment(self, request: Request) -> JSONResponse:
        deployment = self._deployment(request)
        active = self._state.active(self._worker(request))
        if active and active.id == deployment.id:
            raise ApiError(400, 10218, f"The deployment {deployment.id} is active and can't be deleted.")
        self._state.delete_deployment(deployment)
        return ok(None)

    def _deployment(self, request: Request) -> Deployment:
        ident = request.path_params["deployment_id"]
        for deployment in self._state.deployments(self._worker(request)):
            if deployment.id == ident:
                return deployment
        raise ApiError(404, 10217, f"The deployment {ident} does not exist.")

    # subdomain

    async def get_subdomain(self, request: Request) -> JSONResponse:
        return ok(self._worker(request).spec["subdomain"])

    async def set_subdomain(self, request: Request) -> JSONResponse:
        worker = self._worker(request)
        body = {"enabled": False} if request.method == "DELETE" else await json_object(request)
        if not isinstance(body.get("enabled"), bool):
            raise ApiError(400, 10023, "enabled must be true or false.")
        previews = bool(body.get("previews_enabled", False))
        worker.spec["subdomain"] = {"enabled": body["enabled"], "previews_enabled": previews}
        worker.updated_on = now()
        self._state.save_worker(worker)
        await self._deployer.apply(worker)
        return ok(worker.spec["subdomain"])

    # secrets: each change is a new version that is deployed at once

    async def list_secrets(self, request: Request) -> JSONResponse:
        return ok([shown_binding(secret) for secret in self._secrets(request)])

    async def get_secret(self, request: Request) -> JSONResponse:
        return ok(shown_binding(self._secret(request)))

    async def put_secret(self, request: Request) -> JSONResponse:
        worker, body = self._worker(request), await json_object(request)
        secret = {"type": "secret_text", "name": text(body, "name", 10021), "text": body.get("text")}
        if not isinstance(secret["text"], str):
            raise ApiError(400, 10021, "text is required and must be a string.")
        base = self._latest(worker)
        others = [binding for binding in base.bindings if binding["name"] != secret["name"]]
        await self._redeploy(worker, base, [*others, secret])
        return ok(shown_binding(secret))

    async def delete_secret(self, request: Request) -> JSONResponse:
        worker, secret = self._worker(request), self._secret(request)
        base = self._latest(worker)
        others = [binding for binding in base.bindings if binding["name"] != secret["name"]]
        await self._redeploy(worker, base, others)
        return ok(None)

    async def _redeploy(self, worker: Worker, base: Version, bindings: list[JsonObject]) -> None:
        version = self._uploads.again(worker, base, bindings, "secret")
        await self._deployer.deploy(worker, _all(version))

    def _latest(self, worker: Worker) -> Version:
        return find_version(self._state, worker, "latest")

    def _secrets(self, request: Request) -> list[JsonObject]:
        latest = self._state.version(self._worker(request), "latest")
        return [binding for binding in latest.bindings if binding["type"] == "secret_text"] if latest else []

    def _secret(self, request: Request) -> JsonObject:
        name = request.path_params["secret_name"]
        for secret in self._secrets(request):
            if secret["name"] == name:
                return secret
        raise ApiError(404, 10056, f"The secret {name} does not exist.")

    # settings

    async def script_settings(self, request: Request) -> JSONResponse:
        """What holds for every version of a script."""
        return ok(_unversioned(self._worker(request)))

    async def edit_script_settings(self, request: Request) -> JSONResponse:
        worker, body = self._worker(request), await json_object(request)
        worker.spec = spec_of(worker.spec, {key: body[key] for key in SCRIPT_SETTINGS if key in body})
        worker.updated_on = now()
        self._state.save_worker(worker)
        return ok(_unversioned(worker))

    async def settings(self, request: Request) -> JSONResponse:
        worker = self._worker(request)
        latest = self._latest(worker)
        return ok(
            {
                **worker.spec,
                "bindings": [shown_binding(binding) for binding in latest.bindings],
                "compatibility_date": latest.spec.get("compatibility_date"),
                "compatibility_flags": latest.spec.get("compatibility_flags", []),
                "usage_model": "standard",
            }
        )

    # versions

    async def create_version(self, request: Request) -> Response:
        worker = self._worker(request)
        spec, files = await multipart(request)
        version = await self._uploads.add(worker, spec, files, drop_unknown=not _strict(request))
        return ok({**_version(version), "startup_time_ms": 0})

    async def list_versions(self, request: Request) -> JSONResponse:
        items = [_summary(version) for version in self._state.versions(self._worker(request))]
        number = int(request.query_params.get("page", 1))
        size = min(int(request.query_params.get("per_page", 10)), 100)
        return ok({"items": items[(number - 1) * size : number * size]})

    async def get_version(self, request: Request) -> JSONResponse:
        version = find_version(self._state, self._worker(request), request.path_params["version_id"])
        return ok(_version(version))


def _strict(request: Request) -> bool:
    return request.query_params.get("bindings_inherit") == "strict"


def _all(version: Version) -> list[JsonObject]:
    return [{"version_id": version.id, "percentage": 100}]


def script(worker: Worker) -> JsonObject:
    return {
        "id": worker.name,
        "tag": worker.id,
        "created_on": worker.created_on,
        "modified_on": worker.updated_on,
        "usage_model": "standard",
        "has_modules": True,
        **_unversioned(worker),
    }


def _unversioned(worker: Worker) -> JsonObject:
    return {key: worker.spec[key] for key in SCRIPT_SETTINGS}


def _summary(version: Version) -> JsonObject:
    return {
        "id": version.id,
        "number": version.number,
        "metadata": {
            "author_email": "local@localhost",
            "created_on": version.created_on,
            "modified_on": version.created_on,
            "hasPreview": False,
            "source": version.source,
        },
        "annotations": version.spec.get("annotations", {}),
    }


def _version(version: Version) -> JsonObject:
    """A version as the scripts API answers it."""
    runtime = {
        key: version.spec[key]
        for key in ("compatibility_date", "compatibility_flags", "limits", "usage_model")
        if key in version.spec
    }
    return {
        **_summary(version),
        "resources": {
            "bindings": [shown_binding(binding) for binding in version.bindings],
            "script": {"etag": version.id.replace("-", ""), "handlers": ["fetch"]},
            "script_runtime": runtime,
        },
    }
