"""Errors as the engine receives them."""

import asyncio
import subprocess
import sys
import time
from typing import Any

import pytest
from pulumi.provider.experimental import provider as sdk
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.runtime import proto
from pulumi.runtime.proto import provider_pb2, status_pb2

from cfrag.file_backend import is_dead
from cfrag.pulumi_env import ROOT
from infra.errors import CfragError
from infra.provider.engine import Engine
from infra.provider.serving import EngineProvider, PartialFailure, Servicer


class Aborted(Exception):
    """Stands for gRPC's own way out of a handler."""


class Context:
    """The one call of a gRPC context that the server makes."""

    status: Any = None

    async def abort_with_status(self, status: Any) -> None:
        self.status = status
        raise Aborted


class Broken(EngineProvider):
    """Fails in every way that a provider may."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.engine = Engine("127.0.0.1:1")

    async def create(self, request: sdk.CreateRequest) -> sdk.CreateResponse:
        raise self.error or AssertionError

    async def delete(self, request: sdk.DeleteRequest) -> None:
        raise self.error or AssertionError

    async def read(self, request: sdk.ReadRequest) -> sdk.ReadResponse:
        return sdk.ReadResponse()


def served(provider: EngineProvider) -> Servicer:
    return Servicer([], "6.23.1", provider, engine_address="127.0.0.1:1")


def failing(method: str, request: Any, error: Exception) -> Any:
    context = Context()
    with pytest.raises(Aborted):
        asyncio.run(getattr(served(Broken(error)), method)(request, context))
    return context.status


@pytest.mark.parametrize(
    ("method", "request_"),
    [("Create", proto.CreateRequest(urn="u")), ("Delete", proto.DeleteRequest(urn="u", id="x"))],
)
def test_an_error_of_the_project_is_its_message_and_nothing_else(method: str, request_: Any) -> None:
    status = failing(method, request_, CfragError("index a holds 3 vectors"))
    assert status.details == "index a holds 3 vectors"
    assert status.trailing_metadata == ()


def test_a_half_made_resource_is_kept_with_its_id_and_properties() -> None:
    error = PartialFailure("idx", {"mutationId": PropertyValue("m1")}, "not processed yet")
    status = failing("Create", proto.CreateRequest(urn="u"), error)
    ((key, packed),) = status.trailing_metadata
    assert key == "grpc-status-details-bin"
    detail = provider_pb2.ErrorResourceInitFailed()
    assert status_pb2.Status.FromString(packed).details[0].Unpack(detail)
    assert (detail.id, list(detail.reasons)) == ("idx", ["not processed yet"])
    assert detail.properties["mutationId"] == "m1"


def test_a_bug_is_not_dressed_up_as_a_message() -> None:
    with pytest.raises(Exception, match="division"):
        asyncio.run(
            served(Broken(ZeroDivisionError("division"))).Create(proto.CreateRequest(urn="u"), Context())
        )


def test_a_missing_object_is_read_as_nothing_at_all() -> None:
    answer = asyncio.run(served(Broken()).Read(proto.ReadRequest(urn="u", id="x"), Context()))
    assert answer == proto.ReadResponse()
    assert not answer.HasField("properties")


@pytest.mark.parametrize(
    ("url", "expected"),
    [("http://a", proto.DiffResponse.DIFF_NONE), ("http://b", proto.DiffResponse.DIFF_SOME)],
)
def test_a_changed_provider_config_is_reported(url: str, expected: Any) -> None:
    request = proto.DiffRequest(urn="u")
    request.olds["baseUrl"] = "http://a"
    request.news["baseUrl"] = url
    assert asyncio.run(served(Broken()).DiffConfig(request, Context())).changes == expected


def test_the_plugin_reports_its_version() -> None:
    assert asyncio.run(served(Broken()).GetPluginInfo(None, Context())).version == "6.23.1"


_ENGINE = """
import subprocess, sys
plugin = subprocess.Popen([sys.argv[1], "127.0.0.1:1"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
assert plugin.stdout.readline().strip().isdigit()
print(plugin.pid, flush=True)
sys.stdin.read()
"""


def test_a_plugin_ends_with_the_engine_that_started_it_however_that_ended() -> None:
    launcher = ROOT / "infra/provider/pulumi-resource-cfrag"
    engine = subprocess.Popen(
        [sys.executable, "-c", _ENGINE, str(launcher)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert engine.stdout
    plugin = int(engine.stdout.readline())
    assert not is_dead(plugin)
    engine.kill()
    engine.communicate()
    deadline = time.monotonic() + 30
    while not is_dead(plugin) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert is_dead(plugin)
