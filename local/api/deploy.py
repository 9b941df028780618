"""Deployments: which version of a Worker runs, and making it so."""

import logging
from typing import Any

from local.api.modules import ModuleStore, invalid
from local.cell_process import CellError
from local.cells import Cells
from local.envelope import ApiError, JsonObject
from local.state import Deployment, State, Version, Worker, new_uuid, now

log = logging.getLogger("local.deploy")
INVALID_DEPLOYMENT = 10210


class Deployer:
    """Records a deployment and makes the cells follow it.

    A deployment may split traffic; here the version with the largest share runs alone.
    """

    def __init__(self, state: State, modules: ModuleStore) -> None:
        self._state = state
        self._modules = modules
        self.cells: Cells
        """Set once, right after: the cells ask this object what they should run."""

    def wanted(self) -> tuple[list[JsonObject], list[str]]:
        """What should run now: every deployed Worker, and all databases."""
        databases = [database.uuid for database in self._state.databases()]
        deployed = [
            (worker, version)
            for worker in self._state.workers()
            if (version := self.running_version(worker)) is not None
        ]
        names = {worker.name for worker, _ in deployed}
        return [self._entry(worker, version, names) for worker, version in deployed], databases

    def running_version(self, worker: Worker) -> Version | None:
        active = self._state.active(worker)
        return self._state.version(worker, active.running) if active else None

    def producers(self, queue: str) -> list[str]:
        """The names of the running Workers that are bound to `queue`."""
        return [
            worker.name
            for worker in self._state.workers()
            if (version := self.running_version(worker)) is not None
            and any(b["type"] == "queue" and b["queue_name"] == queue for b in version.bindings)
        ]

    def _entry(self, worker: Worker, version: Version, deployed: set[str]) -> JsonObject:
        """The Worker as the runtime host wants it."""
        return {
            "name": worker.name,
            "versionId": version.id,
            "host": "127.0.0.1",
            # Port 0 is one that nobody knows: without workers.dev, only other Workers get in.
            "port": self._state.port(worker.name) if worker.spec["subdomain"]["enabled"] else 0,
            "bundleDir": str(self._modules.lay_out(version.id, version.modules)),
            "modules": [
                {"name": module.name, "contentType": module.content_type} for module in version.modules
            ],
            "mainModule": version.spec["main_module"],
            "compatibilityDate": version.spec.get("compatibility_date"),
            "compatibilityFlags": version.spec.get("compatibility_flags", []),
            "bindings": [binding for binding in version.bindings if self._is_there(binding, deployed)],
        }

    def _is_there(self, binding: JsonObject, deployed: set[str]) -> bool:
        """False for a binding to something deleted, or not deployed, since: the runtime can't make it."""
        match binding["type"]:
            case "d1":
                return self._state.database(binding["id"]) is not None
            case "service":
                return binding["service"] in deployed
            case _:
                return True

    async def deploy(
        self,
        worker: Worker,
        versions: list[JsonObject],
        annotations: JsonObject | None = None,
        source: str = "api",
    ) -> Deployment:
        """Make `versions` (`{version_id, percentage}`) the active deployment; returns when it runs.

        A version whose code doesn't start is refused with its error, and what ran before
        runs again.
        """
        deployment = Deployment(new_uuid(), worker.id, now(), versions, annotations or {}, source)
        self._state.add_deployment(deployment)
        try:
            await self.apply(worker)
            # Cloudflare runs the top level of a version once, at upload; here it shows now.
            if self._state.setting("warmDeploys", True):
                await self.cells.warm(worker.name)
        except CellError as error:
            self._state.delete_deployment(deployment)
            await self.cells.reconcile()
            raise invalid(f"The Worker {worker.name} does not start: {error}") from error
        worker.deployed_on = deployment.created_on
        self._state.save_worker(worker)
        return deployment

    async def apply(self, worker: Worker) -> None:
        """Make a change of `worker` effective; returns when it runs again, if it is deployed."""
        await self.cells.reconcile()
        if self.cells.cell_of(worker.name):
            await self.cells.ready(worker.name)

    def checked(self, worker: Worker, body: JsonObject) -> list[JsonObject]:
        """The `versions` of a deployment request: known, at most two, 100 percent together."""
        given = body.get("versions")
        if not isinstance(given, list) or not 1 <= len(given) <= 2:
            raise _refused("A deployment needs one or two versions.")
        versions = [self._share(worker, item) for item in given]
        total = sum(version["percentage"] for version in versions)
        if abs(total - 100) > 0.001:
            raise _refused(f"The percentages of a deployment must add up to 100, not {total:g}.")
        return versions

    def _share(self, worker: Worker, item: Any) -> JsonObject:
        ident = item.get("version_id") if isinstance(item, dict) else None
        percentage = item.get("percentage") if isinstance(item, dict) else None
        if not isinstance(ident, str) or self._state.version(worker, ident) is None:
            raise ApiError(404, 10215, f"The version {ident} of {worker.name} does not exist.")
        if isinstance(percentage, bool) or not isinstance(percentage, (int, float)) or percentage < 0:
            raise _refused(f"The percentage of version {ident} must be a number.")
        return {"version_id": ident, "percentage": percentage}


def _refused(message: str) -> ApiError:
    return ApiError(400, INVALID_DEPLOYMENT, message)


def shown(deployment: Deployment) -> JsonObject:
    """A deployment as the API answers it."""
    return {
        "id": deployment.id,
        "source": deployment.source,
        "strategy": "percentage",
        "author_email": "local@localhost",
        "created_on": deployment.created_on,
        "annotations": {"workers/triggered_by": "deployment", **deployment.annotations},
        "versions": deployment.versions,
    }
