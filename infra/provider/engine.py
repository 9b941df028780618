"""The Pulumi engine as a plugin sees it: messages that appear next to a resource."""

from __future__ import annotations

from typing import Any

import grpc
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc


class Engine:
    """Sends log lines to the engine that started this plugin."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._stub: Any = None

    async def info(self, message: str, urn: str) -> None:
        """A line that stays in the output."""
        await self._log(message, urn, engine_pb2.INFO, ephemeral=False)

    async def warn(self, message: str, urn: str) -> None:
        """A warning that stays in the output and is repeated at its end."""
        await self._log(message, urn, engine_pb2.WARNING, ephemeral=False)

    async def progress(self, message: str, urn: str) -> None:
        """A line that the next one replaces."""
        await self._log(message, urn, engine_pb2.INFO, ephemeral=True)

    async def _log(self, message: str, urn: str, severity: Any, *, ephemeral: bool) -> None:
        if self._stub is None:
            channel = grpc.aio.insecure_channel(self.address, options=_GRPC_CHANNEL_OPTIONS)
            self._stub = engine_pb2_grpc.EngineStub(channel)
        request = engine_pb2.LogRequest(severity=severity, message=message, urn=urn, ephemeral=ephemeral)
        await self._stub.Log(request)
