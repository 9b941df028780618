"""What every resource of a plugin shares: typed inputs in; failures, diffs and outputs out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pulumi.provider.experimental.provider import CheckFailure, PropertyDiff, PropertyDiffKind
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from infra.errors import CfragError
from infra.provider.engine import Engine
from infra.provider.values import UNKNOWN, Unknown, Values, child_path, has_unknown

if TYPE_CHECKING:
    from infra.provider.account import Account

_KINDS = {
    "add": (PropertyDiffKind.ADD, PropertyDiffKind.ADD_REPLACE),
    "delete": (PropertyDiffKind.DELETE, PropertyDiffKind.DELETE_REPLACE),
    "update": (PropertyDiffKind.UPDATE, PropertyDiffKind.UPDATE_REPLACE),
}


class Inputs(BaseModel):
    """Base of a resource's inputs: camelCase for Pulumi, unknown keys refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


I_ = TypeVar("I_", bound=Inputs)


@dataclass
class Call:
    """One call of the engine: who asks, the account to act on, and where messages go."""

    urn: str
    account: Account
    engine: Engine
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    async def info(self, message: str) -> None:
        """Show `message` next to the resource, for good."""
        await self.engine.info(message, self.urn)

    async def warn(self, message: str) -> None:
        """Show `message` as a warning."""
        await self.engine.warn(message, self.urn)

    async def progress(self, message: str) -> None:
        """Show `message` until the next one."""
        await self.engine.progress(message, self.urn)


class NotReady(CfragError):
    """Raised by `create` and `update` once the object exists but can't be used yet."""

    def __init__(self, resource_id: str, outputs: Values, reason: str) -> None:
        super().__init__(reason)
        self.resource_id = resource_id
        self.outputs = outputs


@dataclass(frozen=True)
class Found:
    """What `read` saw: every property, and those that are inputs; the id only where it changed."""

    state: Values
    inputs: Values
    resource_id: str | None = None


class Resource(Generic[I_]):
    """One kind of resource, in plain Python values.

    The state is the inputs, with what a subclass returns as outputs added.
    """

    token: ClassVar[str]
    model: type[I_]
    outputs: ClassVar[tuple[str, ...]] = ()
    """Computed properties: unknown in the preview of a create unless `planned` gives them."""
    described: ClassVar[dict[str, Any]] = {}
    """Types of the properties that are no inputs, for the schema."""
    volatile: ClassVar[frozenset[str]] = frozenset()
    """Outputs that an update gives anew."""
    replace_on: ClassVar[frozenset[str]] = frozenset()
    delete_before_replace: ClassVar[bool] = False
    uncompared: ClassVar[frozenset[str]] = frozenset()
    """Inputs that alone are no reason for an update."""
    secrets: ClassVar[frozenset[str]] = frozenset()

    async def check(self, call: Call, new: I_, old: Values | None) -> list[CheckFailure]:
        """Refuse what must not happen. Only reads; called only when every input is known."""
        return []

    async def derive(self, call: Call, new: I_) -> Values:
        """Inputs that follow from others and belong into the diff."""
        return {}

    def compare(self, old: Values, new: Values) -> Iterator[Change]:
        """The differences between the state and the wanted inputs."""
        names = {name: key_of(self.model, name) for name in self.model.model_fields}
        keys = (set(names.values()) | set(new)) - self.uncompared - set(self.outputs)
        for key in sorted(keys & (set(old) | set(new))):
            yield from changes_between(old.get(key), new.get(key), key)

    def planned(self, new: Values, old: Values | None) -> Values:
        """Outputs that are known before anything is done; `old` is the state that an update starts from."""
        return {}

    async def create(self, call: Call, new: I_) -> tuple[str, Values]:
        """Create the object; its id and computed outputs."""
        raise NotImplementedError

    async def read(self, call: Call, resource_id: str, state: Values) -> Found | None:
        """The object as it is, or None where it is gone. `state` is empty for an import."""
        raise NotImplementedError

    async def update(self, call: Call, resource_id: str, old: Values, new: I_) -> Values:
        """Change the object in place; the computed outputs that changed."""
        return {}

    async def delete(self, call: Call, resource_id: str, state: Values) -> None:
        """Remove the object; one that is gone already is no error."""


@dataclass(frozen=True)
class Change:
    """One difference: a property path and whether it was added, deleted or updated."""

    path: str
    kind: str

    @property
    def top(self) -> str:
        """The resource's own property that the path starts in."""
        return self.path.split(".")[0].split("[")[0]

    def detailed(self, replace: bool) -> PropertyDiff:
        """As the engine wants it."""
        return PropertyDiff(_KINDS[self.kind][replace], False)


def changes_between(old: Any, new: Any, path: str) -> Iterator[Change]:
    """The leaves in which two plain values differ; maps are compared key by key."""
    if isinstance(new, Unknown):
        yield Change(path, "update" if old is not None else "add")
    elif isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from changes_between(old.get(key), new.get(key), child_path(path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for position, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from changes_between(one, other, child_path(path, position))
    elif old != new:
        yield Change(path, "add" if old is None else "delete" if new is None else "update")


def key_of(model: type[BaseModel], name: str) -> str:
    """The camelCase key of a field."""
    return model.model_fields[name].alias or name


def parse(model: type[I_], values: Values) -> tuple[I_ | None, list[CheckFailure]]:
    """Validate `values`: the typed inputs, None while some are unknown, and the failures found.

    What is unknown is neither missing nor wrong.
    """
    unknown = {key for key, value in values.items() if has_unknown(value)}
    try:
        new = model.model_validate({key: value for key, value in values.items() if key not in unknown})
        return (None if unknown else new), []
    except ValidationError as error:
        faults = [fault for fault in error.errors(include_url=False) if not _pending(fault, unknown)]
        return None, [
            CheckFailure(_path(fault["loc"]), f"{fault['msg']} (got {fault['input']!r})") for fault in faults
        ]


def _pending(fault: ErrorDetails, unknown: set[str]) -> bool:
    return fault["type"] == "missing" and fault["loc"][0] in unknown


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        path = child_path(path, step)
    return path


async def poll(
    call: Call, done: Callable[[], Awaitable[bool]], *, seconds: float, interval: float, waiting: str
) -> bool:
    """Wait until `await done()` is true; False after `seconds`, or after Ctrl-C."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while not await done():
        elapsed = loop.time() - started
        if elapsed >= seconds or call.cancelled.is_set():
            return False
        await call.progress(f"{waiting} ({elapsed:.0f} of at most {seconds:.0f} s)")
        await asyncio.sleep(min(interval, seconds - elapsed))
        interval = min(interval * 1.5, 5.0)
    return True


__all__ = [
    "UNKNOWN",
    "Call",
    "Change",
    "CheckFailure",
    "Found",
    "Inputs",
    "NotReady",
    "Resource",
    "parse",
    "poll",
]
