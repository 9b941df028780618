"""Workers, what is deployed of them, and the addresses they answer on."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from infra.provider.base import Call, Inputs
from infra.provider.values import UNKNOWN, Values
from local.provider.rest import Method, RestResource, snake


class WorkerInputs(Inputs):
    """As `pulumi_cloudflare.Worker` sends them."""

    account_id: str
    name: str
    logpush: bool | None = None
    observability: dict[str, Any] | None = None
    subdomain: dict[str, Any] | None = None
    tags: list[str] | None = None
    tail_consumers: list[dict[str, Any]] | None = None


class Worker(RestResource[WorkerInputs]):
    """A Worker without code: versions are uploaded to it."""

    token = "cloudflare:index/worker:Worker"
    model = WorkerInputs
    outputs = ("createdOn",)
    replace_on: ClassVar[frozenset[str]] = frozenset({"accountId"})

    def collection(self, values: Values) -> str:
        return f"/accounts/{values['accountId']}/workers/workers"

    def planned(self, new: Values, old: Values | None) -> Values:
        """The address is the API's to choose, and stays."""
        kept = (old or {}).get("subdomain", {})
        return {"subdomain": {"url": UNKNOWN, **kept, **new.get("subdomain", {})}}

    def computed(self, result: Values, values: Values) -> Values:
        """The subdomain's settings come back with its address."""
        subdomain = values.get("subdomain", {}) | super().computed(result, values).get("subdomain", {})
        url = (result.get("subdomain") or {}).get("url")
        return super().computed(result, values) | {
            "subdomain": {**subdomain, **({"url": url} if url else {})}
        }


class DeploymentInputs(Inputs):
    """As `pulumi_cloudflare.WorkersDeployment` sends them."""

    account_id: str
    script_name: str
    strategy: str
    versions: list[dict[str, Any]] = Field(min_length=1)
    annotations: dict[str, str] | None = None
    force: bool | None = None


class WorkersDeployment(RestResource[DeploymentInputs]):
    """Which versions get the traffic: replaced by every change, and never deleted."""

    token = "cloudflare:index/workersDeployment:WorkersDeployment"
    model = DeploymentInputs
    outputs = ("authorEmail", "createdOn", "source")
    not_sent: ClassVar[frozenset[str]] = frozenset({"accountId", "scriptName", "force"})
    import_keys: ClassVar[tuple[str, ...]] = ("accountId", "scriptName")
    replace_on: ClassVar[frozenset[str]] = frozenset(
        {"accountId", "scriptName", "strategy", "versions", "annotations"}
    )
    uncompared: ClassVar[frozenset[str]] = frozenset({"force"})

    def collection(self, values: Values) -> str:
        force = "?force=true" if values.get("force") else ""
        return f"/accounts/{values['accountId']}/workers/scripts/{values['scriptName']}/deployments{force}"

    def item(self, values: Values, resource_id: str) -> str:
        return f"{self.collection({**values, 'force': None})}/{resource_id}"

    def body(self, values: Values) -> Values:
        """Annotations are named `workers/message` by the API."""
        body: Values = super().body({key: value for key, value in values.items() if key != "annotations"})
        notes = {f"workers/{key}": value for key, value in _notes(values).items()}
        return body | ({"annotations": notes} if notes else {})

    async def delete(self, call: Call, resource_id: str, state: Values) -> None:
        """The next deployment takes over; removing this one would leave a Worker without traffic."""


def _notes(values: Values) -> dict[str, str]:
    return {
        key.removeprefix("workers_"): value for key, value in snake(values.get("annotations") or {}).items()
    }


class SubdomainInputs(Inputs):
    """As `pulumi_cloudflare.WorkersScriptSubdomain` sends them."""

    account_id: str
    script_name: str
    enabled: bool
    previews_enabled: bool | None = None


class WorkersScriptSubdomain(RestResource[SubdomainInputs]):
    """Whether a Worker answers on the account's workers.dev address; one object per Worker."""

    token = "cloudflare:index/workersScriptSubdomain:WorkersScriptSubdomain"
    model = SubdomainInputs
    update_method: ClassVar[Method] = "post"
    not_sent: ClassVar[frozenset[str]] = frozenset({"accountId", "scriptName"})
    replace_on: ClassVar[frozenset[str]] = frozenset({"accountId", "scriptName"})

    def collection(self, values: Values) -> str:
        return f"/accounts/{values['accountId']}/workers/scripts/{values['scriptName']}/subdomain"

    def item(self, values: Values, resource_id: str) -> str:
        return self.collection({"scriptName": resource_id, **values})

    async def create(self, call: Call, new: SubdomainInputs) -> tuple[str, Values]:
        """The id is the Worker's name: the API gives none."""
        _, outputs = await super().create(call, new)
        return new.script_name, outputs


class DomainInputs(Inputs):
    """As `pulumi_cloudflare.WorkersCustomDomain` sends them."""

    account_id: str
    hostname: str
    service: str
    zone_id: str | None = None
    zone_name: str | None = None
    environment: str | None = None


class WorkersCustomDomain(RestResource[DomainInputs]):
    """A host name that a Worker answers on."""

    token = "cloudflare:index/workersCustomDomain:WorkersCustomDomain"
    model = DomainInputs
    outputs = ("certId",)
    create_method: ClassVar[Method] = "put"
    replace_on: ClassVar[frozenset[str]] = frozenset({"accountId", "hostname", "zoneId", "zoneName"})

    def collection(self, values: Values) -> str:
        return f"/accounts/{values['accountId']}/workers/domains"

    async def update(self, call: Call, resource_id: str, old: Values, new: DomainInputs) -> Values:
        """The same call attaches a host name and moves it to another Worker."""
        _, outputs = await self.create(call, new)
        return outputs


class RouteInputs(Inputs):
    """As `pulumi_cloudflare.WorkersRoute` sends them."""

    zone_id: str
    pattern: str
    script: str | None = None


class WorkersRoute(RestResource[RouteInputs]):
    """A pattern of addresses in a zone that a Worker answers."""

    token = "cloudflare:index/workersRoute:WorkersRoute"
    model = RouteInputs
    not_sent: ClassVar[frozenset[str]] = frozenset({"zoneId"})
    clearable: ClassVar[frozenset[str]] = frozenset({"script"})
    import_keys: ClassVar[tuple[str, ...]] = ("zoneId",)
    replace_on: ClassVar[frozenset[str]] = frozenset({"zoneId"})

    def collection(self, values: Values) -> str:
        return f"/zones/{values['zoneId']}/workers/routes"
