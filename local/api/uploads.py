"""From a request to a version: JSON of the beta API, or the multipart form of the scripts API."""

import asyncio
import base64
import binascii
import json
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request

from infra.catalog import WORKER_GZIP_BYTES
from local.api.bindings import BindingChecker
from local.api.modules import ModuleStore, Upload, check_modules, invalid
from local.envelope import JsonObject
from local.state import State, Version, Worker, new_uuid, now

# Script metadata limit of D1's and Workers' documentation: 1 MB, "about 5,000 bindings".
METADATA_BYTES = 1_000_000
SPEC_FIELDS = (
    "annotations",
    "cache_options",
    "compatibility_date",
    "compatibility_flags",
    "limits",
    "main_module",
    "package_dependencies",
    "placement",
    "usage_model",
)
UNSUPPORTED = ("assets", "containers", "exports", "migrations")


class Uploads:
    """Checks an upload as a whole, then stores it as the next version of its Worker."""

    def __init__(self, state: State, modules: ModuleStore, checker: BindingChecker) -> None:
        self._state = state
        self._modules = modules
        self._checker = checker

    async def add(
        self,
        worker: Worker,
        spec: JsonObject,
        uploads: list[Upload],
        *,
        source: str = "api",
        drop_unknown: bool = False,
    ) -> Version:
        """The new version. Nothing is stored when anything about it is refused."""
        for key in UNSUPPORTED:
            if spec.get(key):
                raise invalid(f"{key} is not part of this Cloudflare.")
        _check_metadata(spec)
        limit = self._state.setting("workerGzipBytes", WORKER_GZIP_BYTES.value)
        await asyncio.to_thread(check_modules, spec.get("main_module"), uploads, limit)
        bindings = self._bindings(worker, spec, drop_unknown=drop_unknown)
        async with self._modules.changing:
            modules = await asyncio.to_thread(self._modules.save, uploads)
            return self._store(worker, spec, bindings, modules, source)

    def again(self, worker: Worker, base: Version, bindings: list[JsonObject], message: str) -> Version:
        """A version with the code of `base` and other bindings, as a changed secret makes one."""
        spec = {**base.spec, "annotations": {"workers/triggered_by": message}}
        return self._store(worker, spec, bindings, base.modules, "api")

    def _bindings(self, worker: Worker, spec: JsonObject, *, drop_unknown: bool) -> list[JsonObject]:
        latest = self._state.version(worker, "latest")
        previous = latest.bindings if latest else []
        given = spec.get("bindings") or []
        if not isinstance(given, list):
            raise invalid("bindings must be a list.")
        kept = _kept(spec, given, previous)
        return self._checker.resolve([*given, *kept], previous, worker.name, drop_unknown=drop_unknown)

    def _store(
        self, worker: Worker, spec: JsonObject, bindings: list[JsonObject], modules: list[Any], source: str
    ) -> Version:
        version = Version(
            new_uuid(),
            worker.id,
            self._state.next_number(worker),
            now(),
            {key: spec[key] for key in SPEC_FIELDS if spec.get(key) is not None},
            bindings,
            modules,
            source,
        )
        self._state.add_version(version)
        return version


def _check_metadata(spec: JsonObject) -> None:
    size = len(json.dumps(spec).encode())
    if size > METADATA_BYTES:
        raise invalid(f"The metadata of the upload is {size:,} bytes; at most {METADATA_BYTES:,} allowed.")
    flags = spec.get("compatibility_flags") or []
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        raise invalid("compatibility_flags must be a list of strings.")


def _kept(spec: JsonObject, given: list[Any], previous: list[JsonObject]) -> list[JsonObject]:
    """What `keep_bindings` asks to carry over: the previous bindings of these types."""
    types = spec.get("keep_bindings") or []
    names = {binding.get("name") for binding in given if isinstance(binding, dict)}
    return [
        {"type": "inherit", "name": binding["name"]}
        for binding in previous
        if binding["type"] in types and binding["name"] not in names
    ]


def json_modules(body: JsonObject) -> list[Upload]:
    """`modules: [{name, content_type, content_base64}]` of the beta API."""
    modules = body.pop("modules", None) or []
    if not isinstance(modules, list):
        raise invalid("modules must be a list.")
    return [_json_module(module) for module in modules]


def _json_module(module: Any) -> Upload:
    try:
        content = base64.b64decode(module["content_base64"], validate=True)
        return Upload(str(module["name"]), str(module["content_type"]), content)
    except (TypeError, KeyError, binascii.Error) as error:
        raise invalid("A module needs `name`, `content_type` and `content_base64`.") from error


async def multipart(request: Request) -> tuple[JsonObject, list[Upload]]:
    """The `metadata` part and every file part; a module's name is its file name."""
    async with request.form(max_files=20_000, max_fields=1_000, max_part_size=METADATA_BYTES * 2) as form:
        metadata = form.get("metadata")
        raw = await metadata.read() if isinstance(metadata, UploadFile) else (metadata or "")
        try:
            spec = json.loads(raw)
        except ValueError as error:
            raise invalid(f"The metadata part is not JSON: {error}") from error
        if not isinstance(spec, dict):
            raise invalid("The metadata part must be a JSON object.")
        uploads = [
            Upload(
                part.filename or name,
                (part.content_type or "application/octet-stream").partition(";")[0],
                await part.read(),
            )
            for name, part in form.multi_items()
            if isinstance(part, UploadFile) and name != "metadata"
        ]
    spec.setdefault("main_module", spec.pop("body_part", None))
    return spec, uploads
