"""Our classes for the official provider's resources, compared with the official ones."""

import gc
import importlib
import subprocess
import sys
import warnings
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks
from pulumi.runtime.stack import run_pulumi_func
from pulumi.runtime.sync_await import _sync_await

from infra import cloudflare
from tests.stack.declared import Engine

ACCOUNT = "a1" * 16
SETTINGS: dict[str, Any] = {
    "batch_size": 10,
    "max_concurrency": 2,
    "max_retries": 5,
    "max_wait_time_ms": 5000,
}
# Every argument of every class, each under the name of the class.
EVERYTHING: dict[str, dict[str, Any]] = {
    "Provider": {"api_token": "token-of-the-test-token-of-the-test-0123456"},
    "D1Database": {"account_id": ACCOUNT, "name": "db", "read_replication": {"mode": "auto"}},
    "Queue": {"account_id": ACCOUNT, "queue_name": "q", "settings": {"message_retention_period": 86_400}},
    "QueueConsumer": {
        "account_id": ACCOUNT,
        "queue_id": "q1",
        "type": "worker",
        "script_name": "w",
        "dead_letter_queue": "dlq",
        "settings": {**SETTINGS, "visibility_timeout_ms": 30_000},
    },
    "Worker": {
        "account_id": ACCOUNT,
        "name": "w",
        "subdomain": {"enabled": True, "previews_enabled": False},
        "observability": {"enabled": True, "head_sampling_rate": 0.5},
    },
    "WorkersDeployment": {
        "account_id": ACCOUNT,
        "script_name": "w",
        "strategy": "percentage",
        "versions": [{"percentage": 100, "version_id": "v1"}],
    },
    "WorkersCustomDomain": {"account_id": ACCOUNT, "hostname": "h.example", "service": "w", "zone_id": "z1"},
}
# What a request says of the resource itself; the rest is where in the program it was made.
COMPARED = ("type", "name", "custom", "object", "version", "pluginDownloadURL", "additionalSecretOutputs")


@pytest.fixture(scope="module")
def sdk() -> Any:
    gc.disable()
    with warnings.catch_warnings():
        # It warns of its own deprecated resources.
        warnings.simplefilter("ignore", DeprecationWarning)
        module = importlib.import_module("pulumi_cloudflare")
    gc.freeze()
    gc.enable()
    return module


def requests(module: Any, names: list[str]) -> dict[str, dict[str, Any]]:
    """What the engine is asked for, by class, when a program declares one of each."""
    engine = Engine()
    mocks.set_mocks(engine.mocks, project="p", stack="s", preview=False, monitor=engine)

    async def program() -> None:
        for name in names:
            getattr(module, name)(name, **EVERYTHING[name])

    _sync_await(run_pulumi_func(program))
    asked = [each for each in engine.requests if each.type != "pulumi:pulumi:Stack"]
    return {each.name: {field: getattr(each, field) for field in COMPARED} for each in asked}


def test_each_asks_for_what_the_official_class_does(sdk: Any) -> None:
    names = sorted(EVERYTHING)
    mine, official = requests(cloudflare, names), requests(sdk, names)
    # The official one lists secrets that a stack here never gives.
    assert list(mine["Provider"].pop("additionalSecretOutputs")) == ["apiToken"]
    assert "apiToken" in official["Provider"].pop("additionalSecretOutputs")
    assert mine == official


def test_every_class_is_compared() -> None:
    declared = {
        name
        for name, each in vars(cloudflare).items()
        if isinstance(each, type) and issubclass(each, pulumi.Resource) and not name.startswith("_")
    }
    assert declared == set(EVERYTHING)


def test_a_program_pays_for_no_other_resource() -> None:
    script = "import sys, infra.stack; sys.exit('pulumi_cloudflare' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
