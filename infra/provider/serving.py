"""A Pulumi plugin's gRPC server: the SDK's, with clean errors, kept partial results and three repairs."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf import empty_pb2
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.provider import Provider
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime import proto
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from infra.errors import CfragError
from infra.provider.engine import Engine

Failure = TypeVar("Failure", bound=BaseException)

_GUARDED = (
    *("CheckConfig", "DiffConfig", "Configure", "Check", "Diff"),
    *("Create", "Read", "Update", "Delete", "Invoke", "Construct", "Call"),
)
# How often a plugin looks whether its engine is still there.
_ORPHAN_SECONDS = 1.0


class PartialFailure(CfragError):
    """The object exists but is not ready: its id and properties are kept, and the next run calls `update`."""

    def __init__(self, resource_id: str, properties: dict[str, PropertyValue], reason: str) -> None:
        super().__init__(reason)
        self.resource_id = resource_id
        self.properties = properties


class EngineProvider(Provider):
    """A provider that knows the engine it runs under."""

    engine: Engine


class Servicer(ProviderServicer):
    """`ProviderServicer` of SDK 3.272 without what loses changes or hides messages.

    Every method is guarded: a `CfragError` becomes one clean line instead of a traceback.
    """

    _provider: EngineProvider

    async def Attach(self, request: Any, context: Any) -> Any:
        """Take the engine's address from a debugger or a test (`PULUMI_DEBUG_PROVIDERS`)."""
        self._engine_address = request.address
        self._provider.engine = Engine(request.address)
        return empty_pb2.Empty()

    async def DiffConfig(self, request: Any, context: Any) -> Any:
        """Report a changed provider config: the SDK turns `changes=True` into "no difference"."""
        changed = request.olds != request.news
        kind = proto.DiffResponse.DIFF_SOME if changed else proto.DiffResponse.DIFF_NONE
        return proto.DiffResponse(changes=kind)

    async def Read(self, request: Any, context: Any) -> Any:
        """Answer "missing" with no properties at all: with an empty struct an import keeps a ghost."""
        response = await super().Read(request, context)
        return response if response.id else proto.ReadResponse()


def _guarded(name: str) -> Callable[..., Awaitable[Any]]:
    method = getattr(Servicer, name)

    async def guarded(self: Servicer, request: Any, context: Any) -> Any:
        try:
            return await method(self, request, context)
        except NotImplementedError:
            raise
        except Exception as error:
            failure = find_failure(error, CfragError)
            if failure is None:
                raise
            await context.abort_with_status(status_of(failure))

    guarded.__name__ = name
    return guarded


for _name in _GUARDED:
    setattr(Servicer, _name, _guarded(_name))


def find_failure(error: BaseException | None, kind: type[Failure]) -> Failure | None:
    """The first `kind` in the chain of `error`: the SDK re-raises everything as a plain exception."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, kind):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def status_of(failure: CfragError) -> Any:
    """The gRPC status of a failure; a partial one carries what already exists."""
    status = grpc.Status()
    status.code, status.details, status.trailing_metadata = grpc.StatusCode.UNKNOWN, str(failure), ()
    if isinstance(failure, PartialFailure):
        detail = provider_pb2.ErrorResourceInitFailed(
            id=failure.resource_id,
            properties=PropertyValue.marshal_map(failure.properties),
            reasons=[str(failure)],
        )
        packed = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=str(failure))
        packed.details.add().Pack(detail)
        status.trailing_metadata = (("grpc-status-details-bin", packed.SerializeToString()),)
    return status


async def _orphaned(engine: int) -> None:
    """Returns when the engine that has started this process is gone: a killed one stops no plugin."""
    while os.getppid() == engine:  # noqa: ASYNC110 - the system tells nobody
        await asyncio.sleep(_ORPHAN_SECONDS)


def serve(provider: EngineProvider, version: str) -> None:
    """Run `provider` as the plugin that the engine has just started; prints the port and blocks."""
    parent = os.getppid()
    parser = argparse.ArgumentParser(description="Pulumi provider plugin (gRPC server)")
    parser.add_argument("engine", help="address of the Pulumi engine")
    known, _ = parser.parse_known_args()
    provider.engine = Engine(known.engine)

    async def run() -> None:
        server = grpc.aio.server(options=_GRPC_CHANNEL_OPTIONS)
        servicer = Servicer(sys.argv[1:], version, provider, engine_address=known.engine)
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        print(port, flush=True)
        ends = asyncio.ensure_future(server.wait_for_termination()), asyncio.ensure_future(_orphaned(parent))
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        await server.stop(None)

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run())
