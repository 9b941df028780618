"""One local Cloudflare for the tests of the providers, and Pulumi projects on it."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.provider.support import Direct, LocalCloudflare, Project, plugin_home


@pytest.fixture(scope="session")
def cloudflare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloudflare]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    running = LocalCloudflare.start(tmp_path_factory.mktemp("cloudflare"), port)
    running.control("PUT", "/__local/settings", {"vectorizeDelaySeconds": 0})
    yield running
    running.stop()


@pytest.fixture
def direct(cloudflare: LocalCloudflare) -> Direct:
    return Direct(cloudflare)


@pytest.fixture(scope="session")
def plugin_folder(tmp_path_factory: pytest.TempPathFactory, cloudflare: LocalCloudflare) -> Path:
    """The CLI's plugins, and what the provider takes as CFRAG_HOME."""
    return plugin_home(tmp_path_factory.mktemp("home"), cloudflare)


@pytest.fixture(scope="session")
def new_project(
    tmp_path_factory: pytest.TempPathFactory, cloudflare: LocalCloudflare, plugin_folder: Path
) -> Callable[[str], Project]:
    """Makes a project with an empty stack."""

    def create(name: str) -> Project:
        folder: Path = tmp_path_factory.mktemp(name) / "project"
        return Project.create(folder, cloudflare, plugin_folder)

    return create
