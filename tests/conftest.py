"""What tests of every area share."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import deployed as deployment
from tests.deployed import Deployed

# Fixtures that deploy a Worker, each for many tests.
SHARED = {"deployed", "deployment"}


def pytest_configure() -> None:
    """Run in the background, this process would ignore SIGINT, and so would all that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder that all processes of this test run have in common."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if hasattr(request.config, "workerinput") else base


@pytest.fixture(scope="session")
def deployed(run_folder: Path) -> Iterator[Deployed]:
    """The demo's stack, deployed by the real Pulumi CLI and filled with its corpus."""
    with deployment.shared(run_folder) as running:
        yield running


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one deployment stay on one process of the run, so that it starts and stops once."""
    for item in items:
        for shared in SHARED & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(shared))


@pytest.fixture(scope="module")
def pulumi_loop() -> Iterator[None]:
    """An event loop of the thread: Pulumi wants one, and async tests before these leave none."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()
