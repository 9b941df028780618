"""Typed classes for the resources of the official `cloudflare` provider that a stack uses.

They ask the engine for what the classes of `pulumi_cloudflare` would (a test compares the requests), but that
package takes 3 s of CPU and 330 MB to import, in every preview: see docs/decisions/022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, TypedDict

import pulumi
from pulumi import Input, Output, ResourceOptions

# The provider's version is that of the locked package.
_VERSION = version("pulumi-cloudflare")


class ConsumerSettings(TypedDict, total=False):
    """Of a queue's consumer; the last one is for `http_pull` only."""

    batch_size: int
    max_concurrency: int
    max_retries: int
    max_wait_time_ms: int
    visibility_timeout_ms: int


class Provider(pulumi.ProviderResource):
    """Where and as whom the resources are managed; what is left out comes from `CLOUDFLARE_*`."""

    def __init__(
        self, name: str, *, api_token: Input[str] | None = None, opts: ResourceOptions | None = None
    ) -> None:
        props = {} if api_token is None else {"apiToken": Output.secret(api_token)}
        secret = ResourceOptions(version=_VERSION, additional_secret_outputs=["apiToken"])
        super().__init__("cloudflare", name, props, ResourceOptions.merge(secret, opts))


class _Official(pulumi.CustomResource):
    """A resource of the provider; `outputs` are properties that only the provider knows."""

    def __init__(
        self,
        name: str,
        inputs: Mapping[str, Any],
        opts: ResourceOptions | None,
        outputs: Sequence[str] = (),
    ) -> None:
        kind = type(self).__name__
        token = f"cloudflare:index/{kind[0].lower()}{kind[1:]}:{kind}"
        given = {key: value for key, value in inputs.items() if value is not None}
        options = ResourceOptions.merge(ResourceOptions(version=_VERSION), opts)
        super().__init__(token, name, _camel(given) | dict.fromkeys(outputs), options)


class D1Database(_Official):
    """A database; its id is the uuid."""

    def __init__(
        self,
        resource_name: str,
        *,
        account_id: Input[str],
        name: Input[str],
        read_replication: Mapping[str, str],
        opts: ResourceOptions | None = None,
    ) -> None:
        """`read_replication` is {"mode": "auto" or "disabled"}; left out, it is an update after a refresh."""
        inputs = {"account_id": account_id, "name": name, "read_replication": read_replication}
        super().__init__(resource_name, inputs, opts)


class Queue(_Official):
    """A queue; `settings` may hold `message_retention_period`, in seconds."""

    def __init__(
        self,
        resource_name: str,
        *,
        account_id: Input[str],
        queue_name: Input[str],
        settings: Mapping[str, Any] | None = None,
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {"account_id": account_id, "queue_name": queue_name, "settings": settings}
        super().__init__(resource_name, inputs, opts)

    @property
    @pulumi.getter(name="queueName")
    def queue_name(self) -> Output[str]:
        """What Workers bind it by."""
        value: Output[str] = pulumi.get(self, "queueName")
        return value


class QueueConsumer(_Official):
    """Who takes a queue's messages: a Worker, or whoever pulls them."""

    def __init__(
        self,
        resource_name: str,
        *,
        account_id: Input[str],
        queue_id: Input[str],
        type: str,
        settings: ConsumerSettings,
        script_name: Input[str] | None = None,
        dead_letter_queue: Input[str] | None = None,
        opts: ResourceOptions | None = None,
    ) -> None:
        """`type` is "worker", with a `script_name`, or "http_pull"."""
        inputs = {
            "account_id": account_id,
            "queue_id": queue_id,
            "type": type,
            "script_name": script_name,
            "dead_letter_queue": dead_letter_queue,
            "settings": settings,
        }
        super().__init__(resource_name, inputs, opts)


class Worker(_Official):
    """A Worker without its code: name, workers.dev address and logs."""

    def __init__(
        self,
        resource_name: str,
        *,
        account_id: Input[str],
        name: Input[str],
        subdomain: Mapping[str, bool],
        observability: Mapping[str, Any],
        opts: ResourceOptions | None = None,
    ) -> None:
        """`subdomain`: {enabled, previews_enabled}; `observability`: {enabled, head_sampling_rate}."""
        inputs = {
            "account_id": account_id,
            "name": name,
            "subdomain": subdomain,
            "observability": observability,
        }
        super().__init__(resource_name, inputs, opts)

    @property
    @pulumi.getter
    def name(self) -> Output[str]:
        """The name that deployments and consumers call it by."""
        value: Output[str] = pulumi.get(self, "name")
        return value

    @property
    @pulumi.getter
    def subdomain(self) -> Output[Mapping[str, Any]]:
        """With `url`, the address on workers.dev."""
        value: Output[Mapping[str, Any]] = pulumi.get(self, "subdomain")
        return value


class WorkersDeployment(_Official):
    """Which versions of a Worker get which share of its requests."""

    def __init__(
        self,
        resource_name: str,
        *,
        account_id: Input[str],
        script_name: Input[str],
        strategy: str,
        versions: Sequence[Mapping[str, Any]],
        opts: ResourceOptions | None = None,
    ) -> None:
        """`versions` are {"version_id", "percentage"}; `strategy` is "percentage"."""
        inputs = {
            "account_id": account_id,
            "script_name": script_name,
            "strategy": strategy,
            "versions": versions,
        }
        super().__init__(resource_name, inputs, opts)


class WorkersCustomDomain(_Official):
    """A host name of a zone of the same account, served by a Worker."""

    def __init__(
        self,
        resource_name: str,
        *,
        account_id: Input[str],
        hostname: Input[str],
        service: Input[str],
        zone_id: Input[str],
        opts: ResourceOptions | None = None,
    ) -> None:
        inputs = {"account_id": account_id, "hostname": hostname, "service": service, "zone_id": zone_id}
        super().__init__(resource_name, inputs, opts)


def _camel(value: Any) -> Any:
    """Keys as the provider's schema has them, at every depth."""
    if isinstance(value, Mapping):
        return {_camel_name(key): _camel(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_camel(item) for item in value]
    return value


def _camel_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
