"""Typed classes for the resources of the `cfrag` provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
from pulumi import Input, Output, ResourceOptions


class CfragProvider(pulumi.ProviderResource):
    """Where and as whom the `cfrag` resources are managed; what is left out comes from `CLOUDFLARE_*`."""

    def __init__(
        self,
        name: str,
        *,
        api_token: Input[str] | None = None,
        account_id: Input[str] | None = None,
        base_url: Input[str] | None = None,
        opts: ResourceOptions | None = None,
    ) -> None:
        token = None if api_token is None else Output.secret(api_token)
        props = {"apiToken": token, "accountId": account_id, "baseUrl": base_url}
        super().__init__("cfrag", name, {key: item for key, item in props.items() if item is not None}, opts)


class EmbeddingSpace(pulumi.CustomResource):
    """The vector space that the stack's data lives in, and the gate in front of any change of it."""

    def __init__(
        self,
        name: str,
        *,
        owner: Input[str],
        database: Input[str],
        index: Input[str],
        model: Input[str],
        dims: Input[int],
        metric: Input[str],
        generation: Input[int],
        pooling: Input[str] | None = None,
        replacing: Mapping[str, Any] | None = None,
        opts: ResourceOptions | None = None,
    ) -> None:
        """Declare the space.

        `owner` is `cfrag:<project>/<stack>`, `database` and `index` are the names of the stack's D1 database
        and of the index of this space. `replacing` is the space that this one takes over from, in full:
        `{generation, model, dims, metric, index, strategy}`.
        """
        props = {
            "owner": owner,
            "database": database,
            "index": index,
            "model": model,
            "pooling": pooling,
            "dims": dims,
            "metric": metric,
            "generation": generation,
            "replacing": replacing,
            "spaces": None,
        }
        super().__init__("cfrag:index:EmbeddingSpace", name, props, opts)

    @property
    @pulumi.getter
    def spaces(self) -> Output[Sequence[str]]:
        """The spaces that may exist now, each `g<generation>/<dims>/<metric>`, the wanted one first."""
        value: Output[Sequence[str]] = pulumi.get(self, "spaces")
        return value


class VectorizeIndex(pulumi.CustomResource):
    """One Vectorize index; it never changes in place and is never replaced."""

    def __init__(
        self,
        resource_name: str,
        *,
        name: Input[str],
        dims: Input[int],
        metric: Input[str],
        generation: Input[int],
        owner: Input[str],
        database: Input[str] | None = None,
        deletion: Input[str] = "protected",
        adopt: Input[bool] = False,
        spaces: Input[Sequence[str]] | None = None,
        opts: ResourceOptions | None = None,
    ) -> None:
        """Declare an index.

        `deletion` is `protected`, `when-replaced` or `allowed`; `adopt` takes over an index that
        somebody else made; `spaces` is `EmbeddingSpace.spaces`, which this index has to be one of.
        """
        props = {
            "name": name,
            "dims": dims,
            "metric": metric,
            "generation": generation,
            "owner": owner,
            "database": database,
            "deletion": deletion,
            "adopt": adopt,
            "spaces": spaces,
            "description": None,
        }
        super().__init__("cfrag:index:VectorizeIndex", resource_name, props, opts)

    @property
    @pulumi.getter
    def name(self) -> Output[str]:
        """The index's name on Cloudflare."""
        value: Output[str] = pulumi.get(self, "name")
        return value


class VectorizeMetadataIndex(pulumi.CustomResource):
    """A metadata index: what makes a property filterable."""

    def __init__(
        self,
        resource_name: str,
        *,
        index: Input[str],
        property_name: Input[str],
        index_type: Input[str],
        wait_seconds: Input[int] | None = None,
        database: Input[str] | None = None,
        opts: ResourceOptions | None = None,
    ) -> None:
        """Declare a metadata index of `index`; creation waits at most `wait_seconds` (default 300).

        `database` is the name of the stack's D1 database: where the index holds vectors already, it is told
        that they have to be written again.
        """
        props = {
            "index": index,
            "propertyName": property_name,
            "indexType": index_type,
            "waitSeconds": wait_seconds,
            "database": database,
            "mutationId": None,
        }
        super().__init__("cfrag:index:VectorizeMetadataIndex", resource_name, props, opts)

    @property
    @pulumi.getter(name="mutationId")
    def mutation_id(self) -> Output[str | None]:
        """What made it; empty for one that was taken up."""
        value: Output[str | None] = pulumi.get(self, "mutationId")
        return value


class D1Migrations(pulumi.CustomResource):
    """The schema of a D1 database as numbered SQL files, each applied once."""

    def __init__(
        self,
        resource_name: str,
        *,
        database_id: Input[str],
        migrations: Mapping[str, str],
        opts: ResourceOptions | None = None,
    ) -> None:
        """Apply `migrations`, SQL text by file name, in the order of their leading numbers."""
        props = {"databaseId": database_id, "migrations": dict(migrations), "applied": None}
        super().__init__("cfrag:index:D1Migrations", resource_name, props, opts)

    @property
    @pulumi.getter
    def applied(self) -> Output[Sequence[str]]:
        """Names in the database's ledger, in order."""
        value: Output[Sequence[str]] = pulumi.get(self, "applied")
        return value


class WorkerVersion(pulumi.CustomResource):
    """One uploaded version of a Worker, from a bundle of `infra.bundle.store`."""

    def __init__(
        self,
        resource_name: str,
        *,
        worker_id: Input[str],
        worker: Input[str],
        bundle: Input[str],
        bindings: Mapping[str, Mapping[str, Any]],
        message: Input[str] | None = None,
        tag: Input[str] | None = None,
        cpu_ms: Input[int] | None = None,
        upload: Input[str] | None = None,
        space: Input[str] | None = None,
        spaces: Input[Sequence[str]] | None = None,
        bound: Sequence[Input[str]] | None = None,
        opts: ResourceOptions | None = None,
    ) -> None:
        """Upload `bundle` (a digest) to the Worker named `worker` with the beta id `worker_id`.

        `bindings` maps a binding's name to `{type, ...}` as the API names its fields; the text of a
        `secret_text` has to be a Pulumi secret. `upload` is `beta` (default) or `multipart`.
        `space` is the one that the bundle is made for; it has to be the first of `spaces`. `bound` are ids
        of what bindings give by name.
        """
        props = {
            "workerId": worker_id,
            "worker": worker,
            "bundle": bundle,
            "bindings": bindings,
            "message": message,
            "tag": tag,
            "cpuMs": cpu_ms,
            "upload": upload,
            "space": space,
            "spaces": spaces,
            "bound": bound,
            "manifest": None,
            "versionId": None,
            "number": None,
        }
        super().__init__("cfrag:index:WorkerVersion", resource_name, props, opts)

    @property
    @pulumi.getter(name="versionId")
    def version_id(self) -> Output[str]:
        """What a deployment names."""
        value: Output[str] = pulumi.get(self, "versionId")
        return value

    @property
    @pulumi.getter
    def number(self) -> Output[int | None]:
        """The version's number, counted up by Cloudflare; None after a multipart upload that told none."""
        value: Output[int | None] = pulumi.get(self, "number")
        return value


class SpaceActivation(pulumi.CustomResource):
    """Tells the data what space it should be in, and starts the work that brings it there."""

    def __init__(
        self,
        resource_name: str,
        *,
        database_id: Input[str],
        queue_id: Input[str],
        fingerprint: Input[str],
        generation: Input[int],
        schema_revision: Input[str] | None = None,
        version_id: Input[str] | None = None,
        index: Input[str] | None = None,
        indexed: Mapping[str, Input[str]] | None = None,
        deletion: Input[str] = "protected",
        opts: ResourceOptions | None = None,
    ) -> None:
        """Write `fingerprint`, `generation` and `schema_revision` to D1 and push one sweep message.

        It should depend on everything else, because it is what a destroy reaches first: with a `deletion` of
        `protected` that ends there while `index` exists. `indexed` are the mutations of its metadata indexes.
        """
        props = {
            "databaseId": database_id,
            "queueId": queue_id,
            "fingerprint": fingerprint,
            "generation": generation,
            "schemaRevision": schema_revision,
            "versionId": version_id,
            "index": index,
            "indexed": indexed,
            "deletion": deletion,
        }
        super().__init__("cfrag:index:SpaceActivation", resource_name, props, opts)
