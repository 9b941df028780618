"""A provider made of `Resource`s: translates between the engine's calls and plain typed Python."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from pulumi.provider.experimental import provider as sdk

from infra.errors import CfragError
from infra.provider import adoption
from infra.provider.account import Account
from infra.provider.base import Call, CheckFailure, Inputs, NotReady, Resource, parse
from infra.provider.schema import package_schema
from infra.provider.serving import EngineProvider, PartialFailure
from infra.provider.values import UNKNOWN, Properties, Values, has_unknown, to_plain_map, to_properties

_SETTINGS = ("apiToken", "accountId", "baseUrl")


class Plugin(EngineProvider):
    """Serves a set of resources under one package name."""

    def __init__(self, package: str, version: str, resources: Iterable[Resource[Any]]) -> None:
        self.package = package
        self.version = version
        self.resources = {resource.token: resource for resource in resources}
        self.account = Account({})
        self.cancelled = asyncio.Event()

    async def get_schema(self, request: sdk.GetSchemaRequest) -> sdk.GetSchemaResponse:
        """The package's schema, from the resources' typed inputs."""
        schema = package_schema(self.package, self.version, self.resources.values())
        return sdk.GetSchemaResponse(json.dumps(schema))

    async def check_config(self, request: sdk.CheckRequest) -> sdk.CheckResponse:
        """Mark the token as secret; refuse a stack's move to another account."""
        inputs = dict(request.new_inputs)
        if "apiToken" in inputs:
            inputs["apiToken"] = inputs["apiToken"].with_secret(True)
        old, new = to_plain_map(request.old_inputs or {}), to_plain_map(inputs)
        return sdk.CheckResponse(inputs=inputs, failures=_config_failures(old, new))

    async def diff_config(self, request: sdk.DiffRequest) -> sdk.DiffResponse:
        """Left to the server, which compares the two configs."""
        return sdk.DiffResponse()

    async def configure(self, request: sdk.ConfigureRequest) -> sdk.ConfigureResponse:
        """Take the account's settings; what is missing or unknown comes from the environment."""
        given = to_plain_map(request.args)
        self.account = Account({key: given[key] for key in _SETTINGS if isinstance(given.get(key), str)})
        return sdk.ConfigureResponse(
            accept_secrets=True, supports_preview=True, accept_resources=True, accept_outputs=True
        )

    async def check(self, request: sdk.CheckRequest) -> sdk.CheckResponse:
        """Validate the inputs, then ask the resource."""
        resource, call = self._of(request.urn)
        values = to_plain_map(request.new_inputs)
        new, failures = parse(resource.model, values)
        if failures:
            return sdk.CheckResponse(inputs=request.new_inputs, failures=failures)
        if new is None:
            return sdk.CheckResponse(inputs=request.new_inputs)
        old = to_plain_map(request.old_inputs) if request.old_inputs else None
        failures = await resource.check(call, new, old)
        derived = {} if failures else await resource.derive(call, new)
        return sdk.CheckResponse(inputs=_checked(request.new_inputs, new, derived), failures=failures)

    async def diff(self, request: sdk.DiffRequest) -> sdk.DiffResponse:
        """Compare the state with the wanted inputs, property by property."""
        resource, _ = self._of(request.urn)
        old, new = to_plain_map(request.old_state), to_plain_map(request.new_inputs)
        changes = [
            change for change in resource.compare(old, new) if change.top not in request.ignore_changes
        ]
        replaces = sorted({change.top for change in changes if change.top in resource.replace_on})
        return sdk.DiffResponse(
            changes=bool(changes),
            replaces=replaces,
            delete_before_replace=resource.delete_before_replace,
            diffs=sorted({change.top for change in changes}),
            detailed_diff={
                change.path: change.detailed(change.top in resource.replace_on) for change in changes
            },
        )

    async def create(self, request: sdk.CreateRequest) -> sdk.CreateResponse:
        """Create, or in a preview say what is known of the result."""
        resource, call = self._of(request.urn)
        inputs = dict(request.properties)
        plain = to_plain_map(inputs)
        if request.preview:
            outputs = dict.fromkeys(resource.outputs, UNKNOWN) | _planned(resource, plain, None)
            return sdk.CreateResponse("", inputs | to_properties(outputs, resource.secrets))
        try:
            resource_id, outputs = await resource.create(call, _typed(resource, plain))
        except NotReady as error:
            raise _partial(error, inputs, resource) from error
        return sdk.CreateResponse(resource_id, inputs | to_properties(outputs, resource.secrets))

    async def read(self, request: sdk.ReadRequest) -> sdk.ReadResponse:
        """Read the object; secrets of the state stay as they are, marked."""
        resource, call = self._of(request.urn)
        found = await resource.read(call, request.resource_id, to_plain_map(request.properties))
        if found is None:
            return sdk.ReadResponse()
        return sdk.ReadResponse(
            found.resource_id or request.resource_id,
            _kept(request.properties, to_properties(found.state, resource.secrets)),
            _kept(request.inputs or request.properties, to_properties(found.inputs, resource.secrets)),
        )

    async def update(self, request: sdk.UpdateRequest) -> sdk.UpdateResponse:
        """Update in place, or in a preview say what is known of the result."""
        resource, call = self._of(request.urn)
        old, inputs = dict(request.olds), dict(request.news)
        kept = {key: old[key] for key in resource.outputs if key in old}
        plain = to_plain_map(inputs)
        if request.preview:
            outputs = dict.fromkeys(resource.volatile, UNKNOWN) | _planned(resource, plain, to_plain_map(old))
            return sdk.UpdateResponse(kept | inputs | to_properties(outputs, resource.secrets))
        typed = _typed(resource, plain)
        try:
            outputs = await resource.update(call, request.resource_id, to_plain_map(old), typed)
        except NotReady as error:
            raise _partial(error, kept | inputs, resource) from error
        return sdk.UpdateResponse(kept | inputs | to_properties(outputs, resource.secrets))

    async def delete(self, request: sdk.DeleteRequest) -> None:
        """Delete the object."""
        resource, call = self._of(request.urn)
        await resource.delete(call, request.resource_id, to_plain_map(request.properties))

    async def invoke(self, request: sdk.InvokeRequest) -> sdk.InvokeResponse:
        """The one function: what exists under a stack's names."""
        if request.tok != adoption.TOKEN or self.package != "cfrag":
            raise CfragError(f"the {self.package} provider has no function {request.tok}")
        wanted = adoption.Wanted.model_validate(to_plain_map(request.args))
        call = Call("", self.account, self.engine, self.cancelled)
        return sdk.InvokeResponse(to_properties(await adoption.find(call, wanted)))

    async def cancel(self) -> None:
        """End every wait: what exists is kept and the next run goes on from there."""
        self.cancelled.set()

    def _of(self, urn: str) -> tuple[Resource[Any], Call]:
        token = urn.split("::")[2].split("$")[-1]
        if token not in self.resources:
            known = ", ".join(sorted(self.resources))
            raise CfragError(f"the {self.package} provider has no resource {token}; it has {known}")
        return self.resources[token], Call(urn, self.account, self.engine, self.cancelled)


def _config_failures(old: Values, new: Values) -> list[CheckFailure]:
    before, now = old.get("accountId"), new.get("accountId")
    if not isinstance(before, str) or not isinstance(now, str) or before == now:
        return []
    return [
        CheckFailure(
            "accountId",
            f"this stack lives in account {before} and can't move to {now}: its data would stay behind. "
            "Make a new stack for the other account",
        )
    ]


def _planned(resource: Resource[Any], plain: Values, old: Values | None) -> Values:
    return {} if has_unknown(plain) else resource.planned(plain, old)


def _typed(resource: Resource[Any], plain: Values) -> Any:
    fields = {item.alias or name for name, item in resource.model.model_fields.items()}
    return resource.model.model_validate({key: value for key, value in plain.items() if key in fields})


def _checked(given: Properties, new: Inputs, derived: Values) -> Properties:
    """The inputs with defaults filled in; a value that holds a secret stays as it was given."""
    normal = new.model_dump(mode="json", by_alias=True, exclude_none=True) | derived
    secret = {key: value for key, value in given.items() if value.contains_secret()}
    return to_properties(normal) | secret


def _kept(old: Properties, read: Properties) -> Properties:
    """What was read, but the state's own value where that is secret and was not read in another form."""
    return read | {
        key: value
        for key, value in (old or {}).items()
        if value.contains_secret() and to_plain_map({key: value}) == to_plain_map({key: read.get(key, value)})
    }


def _partial(error: NotReady, inputs: Properties, resource: Resource[Any]) -> PartialFailure:
    properties = inputs | to_properties(error.outputs, resource.secrets)
    return PartialFailure(error.resource_id, properties, str(error))
