"""`WorkerVersion`: uploads a rendered bundle as one version of a Worker."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from infra.provider import deployments
from infra.provider.account import ApiFailure
from infra.provider.base import Call, Change, CheckFailure, Found, Inputs, Resource
from infra.provider.values import Values

if TYPE_CHECKING:
    from cloudflare import Cloudflare

    from infra.bundle.manifest import Bundle

MESSAGE_BYTES = 1000
"""Longer annotations are cut by Cloudflare (API reference, workers/message)."""


class VersionInputs(Inputs):
    """A bundle's digest and what is bound to it, by binding name.

    `bound` are ids of what bindings give by name: one that was made again has to be bound again.
    """

    worker_id: str
    worker: str
    bundle: str
    bindings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    message: str | None = None
    tag: str | None = None
    cpu_ms: int | None = Field(default=None, ge=1)
    upload: Literal["beta", "multipart"] = "beta"
    space: str | None = None
    spaces: list[str] | None = None
    bound: list[str] | None = None

    @field_validator("bindings")
    @classmethod
    def _complete(cls, bindings: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for name, binding in bindings.items():
            if "type" not in binding:
                raise ValueError(f"binding {name} has no type")
            if binding["type"] == "service":
                # Left out, the API answers "production" and every refresh shows a change.
                binding.setdefault("environment", "production")
        return dict(sorted(bindings.items()))


class WorkerVersion(Resource[VersionInputs]):
    """Never updated and never deleted: an active version can't go, and a rollback needs the old ones."""

    token = "cfrag:index:WorkerVersion"
    model = VersionInputs
    outputs = ("versionId", "number")
    described: ClassVar[dict[str, Any]] = {
        "versionId": str,
        "number": int,
        "serving": str,
        "manifest": dict[str, str],
        "mainModule": str,
        "compatibilityDate": str,
        "compatibilityFlags": list[str],
    }
    replace_on: ClassVar[frozenset[str]] = frozenset(
        {
            *("workerId", "worker", "bundle", "bindings", "bound", "message", "tag", "cpuMs", "serving"),
            *("manifest", "mainModule", "compatibilityDate", "compatibilityFlags"),
        }
    )
    uncompared: ClassVar[frozenset[str]] = frozenset({"upload", "space", "spaces"})

    async def check(self, call: Call, new: VersionInputs, old: Values | None) -> list[CheckFailure]:
        """Refuse a space that the gate has not granted, and a secret without a text.

        A placeholder for a secret would overwrite the real one. A change of a Worker that was rolled back is
        no reason for a refusal, but for a warning.
        """
        if new.space and new.spaces and new.space != new.spaces[0]:
            return [CheckFailure("space", _not_granted(new.space, new.spaces[0]))]
        if old and (old.get("bundle"), old.get("bindings")) != (new.bundle, new.bindings):
            await deployments.warn_of_rollback(call, new.worker)
        return [
            CheckFailure(f"bindings.{name}", f"{name} has no text; give it, or bind it as type inherit")
            for name, binding in new.bindings.items()
            if binding["type"] == "secret_text" and not binding.get("text")
        ]

    async def derive(self, call: Call, new: VersionInputs) -> Values:
        """What is in the bundle, so that a preview names what changes."""
        bundle = _load(new.bundle)
        return {
            "manifest": dict(bundle.manifest),
            "mainModule": bundle.main_module,
            "compatibilityDate": bundle.compatibility_date,
            "compatibilityFlags": list(bundle.compatibility_flags),
        }

    def compare(self, old: Values, new: Values) -> Iterator[Change]:
        """Also a deployment that somebody else made: the same code is uploaded and deployed once more."""
        yield from super().compare(old, new)
        if old.get("serving"):
            yield Change("serving", "delete")

    async def create(self, call: Call, new: VersionInputs) -> tuple[str, Values]:
        """Upload the bundle."""
        bundle = _load(new.bundle)
        await call.progress(f"uploading {len(bundle.modules):,} modules, {bundle.gzip_bytes:,} bytes gzipped")
        upload = _upload_beta if new.upload == "beta" else _upload_multipart
        version, number = await upload(call, new, bundle)
        return f"{new.worker_id}/{version}", {"versionId": version, "number": number}

    async def read(self, call: Call, resource_id: str, state: Values) -> Found | None:
        """Whether the version still exists, and in `serving` what gets its requests where others do."""
        worker, _, version = resource_id.partition("/")

        def get(client: Cloudflare) -> Any:
            return client.workers.beta.workers.versions.get(
                version, account_id=call.account.id, worker_id=worker
            )

        try:
            found = await call.account.call(f"read version {version} of Worker {worker}", get)
        except ApiFailure as failure:
            if failure.missing:
                return None
            raise
        seen = {"workerId": worker, "versionId": version, "number": found.number}
        others = await deployments.others(call, state["worker"], version) if state.get("worker") else None
        if others:
            await call.warn(
                f"requests of Worker {state['worker']} go to version {others}, which this stack did not "
                f"deploy last: `pulumi up` after a refresh deploys what the config says, in place of it"
            )
        known = {key: value for key, value in state.items() if key != "serving"}
        inputs = {key: value for key, value in known.items() if key not in self.outputs}
        return Found(known | seen | ({"serving": others} if others else {}), inputs or {"workerId": worker})


def _not_granted(wanted: str, granted: str) -> str:
    return (
        f"this version is for space {wanted}, but the stack's embedding space is {granted}: "
        "run `pulumi preview` without --target, which says how to change it"
    )


def _load(digest: str) -> Bundle:
    from infra.bundle import store

    return store.load(store.home(), digest)


def _bindings(new: VersionInputs) -> list[dict[str, Any]]:
    return [{"name": name, **binding} for name, binding in new.bindings.items()]


def _described(new: VersionInputs, bundle: Bundle) -> dict[str, Any]:
    """What both endpoints take besides the modules."""
    message = (new.message or "").encode()[:MESSAGE_BYTES].decode(errors="ignore")
    annotations = {"workers/message": message, "workers/tag": new.tag or ""}
    limits = {"limits": {"cpu_ms": new.cpu_ms}} if new.cpu_ms else {}
    return {
        "main_module": bundle.main_module,
        "compatibility_date": bundle.compatibility_date,
        "compatibility_flags": list(bundle.compatibility_flags),
        "bindings": _bindings(new),
        "annotations": {key: value for key, value in annotations.items() if value},
        **limits,
    }


async def _upload_beta(call: Call, new: VersionInputs, bundle: Bundle) -> tuple[str, int | None]:
    described = _described(new, bundle)
    modules = [
        {
            "name": module.name,
            "content_type": module.content_type,
            "content_base64": base64.b64encode(module.content).decode(),
        }
        for module in bundle.modules
    ]

    def create(client: Cloudflare) -> Any:
        versions = client.workers.beta.workers.versions
        return versions.create(new.worker_id, account_id=call.account.id, modules=modules, **described)  # type: ignore[arg-type]

    version = await call.account.call(f"upload a version of Worker {new.worker}", create)
    return str(version.id), int(version.number)


async def _upload_multipart(call: Call, new: VersionInputs, bundle: Bundle) -> tuple[str, int | None]:
    metadata = json.dumps(_described(new, bundle)).encode()
    parts: list[tuple[str, tuple[str, bytes, str]]] = [
        (module.name, (module.name, module.content, module.content_type)) for module in bundle.modules
    ]
    parts.append(("metadata", ("metadata.json", metadata, "application/json")))

    def create(client: Cloudflare) -> Any:
        # The SDK's own method can't name the parts, and the API finds a module by its part's name.
        return client.post(
            f"/accounts/{call.account.id}/workers/scripts/{new.worker}/versions",
            cast_to=object,
            files=parts,
            options={"headers": {"Content-Type": "multipart/form-data"}},
        )

    answer = await call.account.call(f"upload a version of Worker {new.worker}", create)
    result = answer["result"]
    number = result.get("number")
    return str(result["id"]), int(number) if number is not None else None
