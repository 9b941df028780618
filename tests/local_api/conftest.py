"""A local Cloudflare for the tests of its API: one per module, or one of a test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local_api.server import LocalServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """Shared by the tests of a module, which use names of their own."""
    running = LocalServer(tmp_path_factory.mktemp("home")).start()
    yield running
    running.stop()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[LocalServer]:
    """For tests that kill, stop or reconfigure it."""
    running = LocalServer(tmp_path / "home").start()
    yield running
    running.stop()
