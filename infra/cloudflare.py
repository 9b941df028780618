"""What a stack uses of `pulumi_cloudflare`, imported in a third of the time that the package takes."""

import gc
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec


@contextmanager
def _modules_of(package: str) -> Iterator[None]:
    """Let single modules of a package be imported without what its `__init__` imports.

    Here that is 300 resources and 400 data sources. Whoever imports the package itself later gets all of it.
    """
    spec = find_spec(package)
    if spec is None or package in sys.modules:
        yield
        return
    sys.modules[package] = module_from_spec(spec)
    # Half of the time is spent in looking for garbage among classes that stay.
    gc.disable()
    try:
        with warnings.catch_warnings():
            # It warns of its own deprecated resources, none of which is used here.
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        gc.freeze()
        gc.enable()
        del sys.modules[package]


with _modules_of("pulumi_cloudflare"):
    from pulumi_cloudflare._inputs import QueueConsumerSettingsArgsDict as ConsumerSettings
    from pulumi_cloudflare.d1_database import D1Database
    from pulumi_cloudflare.provider import Provider
    from pulumi_cloudflare.queue import Queue
    from pulumi_cloudflare.queue_consumer import QueueConsumer
    from pulumi_cloudflare.worker import Worker
    from pulumi_cloudflare.workers_custom_domain import WorkersCustomDomain
    from pulumi_cloudflare.workers_deployment import WorkersDeployment

__all__ = [
    "ConsumerSettings",
    "D1Database",
    "Provider",
    "Queue",
    "QueueConsumer",
    "Worker",
    "WorkersCustomDomain",
    "WorkersDeployment",
]
