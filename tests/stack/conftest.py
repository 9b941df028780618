"""One local Cloudflare for the stacks of these tests."""

import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.provider.support import LocalCloudflare, plugin_home
from tests.stack.checkout import RAG, Checkout

NewCheckout = Callable[..., Checkout]


@pytest.fixture(scope="module", autouse=True)
def program_loop(pulumi_loop: None) -> None:
    """Pulumi's mocks want an event loop in every module here."""


@pytest.fixture(scope="session")
def cloudflare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloudflare]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    running = LocalCloudflare.start(tmp_path_factory.mktemp("cloudflare"), port)
    running.control("PUT", "/__local/settings", {"vectorizeDelaySeconds": 0})
    yield running
    running.stop()


@pytest.fixture(scope="session")
def new_checkout(tmp_path_factory: pytest.TempPathFactory, cloudflare: LocalCloudflare) -> NewCheckout:
    """Makes a checkout of this project whose stack is configured but not deployed."""
    plugins = plugin_home(tmp_path_factory.mktemp("plugins"), cloudflare)

    def create(stack: str, rag: Mapping[str, Any] = RAG) -> Checkout:
        folder: Path = tmp_path_factory.mktemp(stack)
        checkout = Checkout.create(folder / "checkout", cloudflare, plugins, stack)
        checkout.configure(rag)
        return checkout

    return create
