"""Resources that are one object of the REST API: Pulumi's camelCase outside, the API's snake_case inside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from pydantic.alias_generators import to_camel

from infra.provider.account import ApiFailure
from infra.provider.base import Call, Change, Found, Inputs, Resource, changes_between
from infra.provider.values import Values

if TYPE_CHECKING:
    from cloudflare import Cloudflare

I_ = TypeVar("I_", bound=Inputs)
Method = Literal["post", "put", "get", "delete"]


class RestResource(Resource[I_]):
    """Create on a collection, then read, update and delete the item; subclasses give paths and names."""

    result_id: ClassVar[str] = "id"
    create_method: ClassVar[Method] = "post"
    update_method: ClassVar[Method] = "put"
    not_sent: ClassVar[frozenset[str]] = frozenset({"accountId"})
    """Inputs that are part of the path, not of the body."""
    clearable: ClassVar[frozenset[str]] = frozenset()
    """Inputs whose absence means "none"; what else is left out stays as the API has it."""
    import_keys: ClassVar[tuple[str, ...]] = ("accountId",)
    """What the parts of an import id before the last one are."""

    def collection(self, values: Values) -> str:
        """Where an object is created."""
        raise NotImplementedError

    def item(self, values: Values, resource_id: str) -> str:
        """Where an object is read, changed and deleted."""
        return f"{self.collection(values)}/{resource_id}"

    def body(self, values: Values) -> Values:
        """What is sent."""
        return snake({key: value for key, value in values.items() if key not in self.not_sent})

    def computed(self, result: Values, values: Values) -> Values:
        """Outputs from the API's answer to a write or a read."""
        return {key: value for key, value in camel(result).items() if key in self.outputs}

    def compare(self, old: Values, new: Values) -> Iterator[Change]:
        """Differences in what is asked for: the API fills the rest with its defaults."""
        fields = {item.alias or name for name, item in self.model.model_fields.items()}
        for key in sorted(fields & (set(new) | (set(old) & self.clearable)) - self.uncompared):
            yield from changes_between(_asked(old.get(key), new.get(key)), new.get(key), key)

    async def create(self, call: Call, new: I_) -> tuple[str, Values]:
        """Create the object."""
        values = new.model_dump(by_alias=True, exclude_none=True)
        result = await self._send(call, self.create_method, self.collection(values), self.body(values))
        return str(result.get(self.result_id, "")), self.computed(result, values)

    async def read(self, call: Call, resource_id: str, state: Values) -> Found | None:
        """The object as it is, with the API's values for what was asked for."""
        if not state:
            *parts, resource_id = resource_id.split("/")
            state = dict(zip(self.import_keys, parts, strict=False))
        try:
            result = await self._send(call, "get", self.item(state, resource_id))
        except ApiFailure as failure:
            if failure.missing:
                return None
            raise
        seen = self.seen(result)
        names = {item.alias or name for name, item in self.model.model_fields.items()}
        imported = len(state) <= len(self.import_keys)
        inputs = {key: value for key, value in state.items() if key in names}
        for key in names if imported else inputs:
            if key in seen:
                inputs[key] = seen[key] if imported else _asked(seen[key], inputs[key])
        return Found(state | inputs | self.computed(result, inputs), inputs, resource_id)

    def seen(self, result: Values) -> Values:
        """The inputs as the API tells them."""
        return camel(result)

    async def update(self, call: Call, resource_id: str, old: Values, new: I_) -> Values:
        """Change the object in place."""
        values = new.model_dump(by_alias=True, exclude_none=True)
        result = await self._send(call, self.update_method, self.item(values, resource_id), self.body(values))
        return self.computed(result, values)

    async def delete(self, call: Call, resource_id: str, state: Values) -> None:
        """Delete the object; one that is gone already is fine."""
        try:
            await self._send(call, "delete", self.item(state, resource_id))
        except ApiFailure as failure:
            if not failure.missing:
                raise

    async def _send(self, call: Call, method: Method, path: str, body: Values | None = None) -> Values:
        kind = self.token.rpartition(":")[2]
        verb = {"post": "write", "put": "write", "get": "read", "delete": "delete"}[method]

        def send(client: Cloudflare) -> Any:
            if body is None:
                return getattr(client, method)(path, cast_to=object)
            return getattr(client, method)(path, cast_to=object, body=body)

        answer = await call.account.call(f"{verb} {kind} {path.rpartition('/')[2]}", send)
        result = answer.get("result") if isinstance(answer, dict) else None
        return result if isinstance(result, dict) else {}


def _asked(value: Any, wanted: Any) -> Any:
    """`value` without the keys that nobody asked for."""
    if isinstance(value, dict) and isinstance(wanted, dict):
        return {key: _asked(item, wanted.get(key)) for key, item in value.items() if key in wanted}
    if isinstance(value, list) and isinstance(wanted, list) and len(value) == len(wanted):
        return [_asked(one, other) for one, other in zip(value, wanted, strict=True)]
    return value


def snake(values: Values) -> Values:
    """Keys as the API spells them, at every depth."""
    return {_snake(key): _deep(item, snake) for key, item in values.items()}


def camel(values: Values) -> Values:
    """Keys as Pulumi spells them, at every depth; nulls are dropped."""
    return {to_camel(key): _deep(item, camel) for key, item in values.items() if item is not None}


def _snake(key: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", key).lower()


def _deep(value: Any, convert: Callable[[Values], Values]) -> Any:
    if isinstance(value, dict):
        return convert(value)
    return [_deep(item, convert) for item in value] if isinstance(value, list) else value
