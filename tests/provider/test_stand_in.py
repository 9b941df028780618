"""The stand-in for the official plugin: the same properties, changes in place and replacements."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic.alias_generators import to_camel, to_snake

from infra.provider.values import Values
from local.provider.resources import RESOURCES
from tests.provider.support import Direct, LocalCloudflare

ZONE = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def standin(cloudflare: LocalCloudflare) -> Direct:
    return Direct(cloudflare, package="cloudflare")


class Case:
    """A resource with inputs and one change of them."""

    def __init__(self, kind: str, inputs: Values, change: Values, replaces: tuple[str, ...] = ()) -> None:
        self.kind, self.inputs, self.change, self.replaces = kind, inputs, change, replaces


CASES = [
    Case(
        "D1Database",
        {"name": "si-db", "readReplication": {"mode": "disabled"}},
        {"readReplication": {"mode": "auto"}},
    ),
    Case("D1Database", {"name": "si-db-2"}, {"name": "si-db-3"}, ("name",)),
    Case("Queue", {"queueName": "si-queue"}, {"queueName": "si-queue-renamed"}),
    Case("Queue", {"queueName": "si-kept"}, {"settings": {"messageRetentionPeriod": 86400}}),
    Case(
        "QueueConsumer",
        {
            "queueId": "@queue",
            "type": "http_pull",
            "settings": {"batchSize": 5, "visibilityTimeoutMs": 30000},
        },
        {"settings": {"batchSize": 7, "visibilityTimeoutMs": 30000}},
    ),
    Case(
        "Worker",
        {"name": "si-worker", "subdomain": {"enabled": True, "previewsEnabled": False}},
        {"observability": {"enabled": True, "headSamplingRate": 0.5}},
    ),
    Case(
        "WorkersScriptSubdomain",
        {"scriptName": "@worker", "enabled": True, "previewsEnabled": False},
        {"enabled": False},
    ),
    Case(
        "WorkersCustomDomain",
        {"hostname": "rag.example.com", "service": "@worker", "zoneId": ZONE},
        {"hostname": "search.example.com"},
        ("hostname",),
    ),
    Case(
        "WorkersRoute",
        {"zoneId": ZONE, "pattern": "example.com/*", "script": "@worker"},
        {"pattern": "example.com/a"},
    ),
]


def filled(cloudflare: LocalCloudflare, values: Values) -> Values:
    """`values` with the account, and a queue or Worker made where one is needed."""
    made = dict(values)
    if made.get("queueId") == "@queue":
        queue = cloudflare.client.queues.create(account_id=cloudflare.account, queue_name="si-consumed")
        made["queueId"] = queue.queue_id if queue else None
    for key in ("scriptName", "service", "script"):
        if made.get(key) == "@worker":
            made[key] = f"si-{key.lower()}"
            cloudflare.client.workers.beta.workers.create(account_id=cloudflare.account, name=made[key])
    return made if "pattern" in made else {"accountId": cloudflare.account, **made}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}-{next(iter(case.change))}")
async def test_a_resource_lives_from_create_to_delete(
    standin: Direct, cloudflare: LocalCloudflare, case: Case
) -> None:
    inputs = await standin.checked(case.kind, filled(cloudflare, case.inputs))
    made, state = await standin.create(case.kind, inputs)
    assert made

    refreshed = await standin.read(case.kind, made, state)
    assert refreshed == state
    assert not (await standin.diff(case.kind, refreshed, inputs)).changes

    changed = await standin.checked(case.kind, inputs | case.change)
    diff = await standin.diff(case.kind, state, changed)
    assert diff.changes
    assert tuple(diff.replaces) == case.replaces
    if not case.replaces:
        updated = await standin.update(case.kind, made, state, changed)
        seen = await standin.read(case.kind, made, updated)
        assert seen is not None
        assert not (await standin.diff(case.kind, seen, changed)).changes

    await standin.delete(case.kind, made, state)
    left = await standin.read(case.kind, made, state)
    # A Worker's address is switched off, the rest is gone.
    assert left is None or (case.kind == "WorkersScriptSubdomain" and left["enabled"] is False)
    await standin.delete(case.kind, made, state)


async def test_what_was_changed_by_hand_is_a_difference(standin: Direct, cloudflare: LocalCloudflare) -> None:
    inputs = filled(cloudflare, {"name": "si-drift", "readReplication": {"mode": "disabled"}})
    made, state = await standin.create("D1Database", inputs)
    cloudflare.client.d1.database.update(
        made, account_id=cloudflare.account, read_replication={"mode": "auto"}
    )
    seen = await standin.read("D1Database", made, state)
    assert seen is not None
    assert list((await standin.diff("D1Database", seen, inputs)).detailed_diff) == ["readReplication.mode"]


async def test_an_argument_that_is_left_out_is_cleared_or_stays_the_apis(standin: Direct) -> None:
    old = {"accountId": "a", "queueId": "q", "type": "worker", "scriptName": "w", "deadLetterQueue": "d"}
    old["settings"] = "by the API"
    new = {"accountId": "a", "queueId": "q", "type": "worker", "scriptName": "w"}
    assert list((await standin.diff("QueueConsumer", old, new)).detailed_diff) == ["deadLetterQueue"]


async def test_a_worker_tells_its_address(standin: Direct, cloudflare: LocalCloudflare) -> None:
    inputs = filled(
        cloudflare, {"name": "si-address", "subdomain": {"enabled": True, "previewsEnabled": False}}
    )
    _, state = await standin.create("Worker", inputs)
    assert state["subdomain"]["url"].startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("D1Database", {"name": "si-import"}),
        ("Queue", {"queueName": "si-import"}),
        ("Worker", {"name": "si-import"}),
    ],
)
async def test_an_import_takes_the_id_that_the_official_plugin_takes(
    standin: Direct, cloudflare: LocalCloudflare, kind: str, inputs: Values
) -> None:
    wanted = filled(cloudflare, inputs)
    made, _ = await standin.create(kind, wanted)
    state = await standin.read(kind, f"{cloudflare.account}/{made}")
    assert state is not None
    assert not (await standin.diff(kind, state, wanted)).changes


async def test_an_argument_that_the_stand_in_does_not_have_is_refused(
    standin: Direct, cloudflare: LocalCloudflare
) -> None:
    inputs = filled(cloudflare, {"name": "si-extra", "previewsBaseConfig": {"logpush": True}})
    assert "previewsBaseConfig" in await standin.check("Worker", inputs)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.token.rpartition(":")[2])
def test_every_property_is_one_of_the_sdk(resource: Any) -> None:
    # Read instead of imported, which takes seconds: every property is set in the constructor.
    sdk = importlib.util.find_spec("pulumi_cloudflare")
    assert sdk is not None
    assert sdk.submodule_search_locations is not None
    module = to_snake(resource.token.rpartition(":")[2])
    source = (Path(sdk.submodule_search_locations[0]) / f"{module}.py").read_text()
    known = {to_camel(name) for name in re.findall(r'__props__\.__dict__\["(\w+)"\]', source)}
    mine = {each.alias or name for name, each in resource.model.model_fields.items()} | set(resource.outputs)
    assert mine <= known
    assert f"'{resource.token}'" in source
