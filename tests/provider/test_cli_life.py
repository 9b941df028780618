"""A stack of both plugins from its first `up` to its `destroy`, through the real Pulumi CLI."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.bundle import store
from infra.bundle.manifest import assemble, module
from tests.provider.support import LocalCloudflare, Project, Wanted

SECRET = "an-internal-secret-that-nobody-may-read"
SOURCE = "from workers import WorkerEntrypoint\nclass Default(WorkerEntrypoint):\n    pass\n"


def bundle(home: Path) -> str:
    own = [module("entry.py", SOURCE.encode())]
    return store.save(assemble(own, [], {"workers-runtime-sdk": "1.6.15"}, 256), home)


def stack(cloudflare: LocalCloudflare, digest: str, *, deletion: str = "protected") -> Wanted:
    """Every kind of resource but the deployment, which would run the Worker."""
    account, owner = cloudflare.account, "cfrag:shop/life"
    space = {"dims": 384, "metric": "cosine", "generation": 1, "owner": owner, "database": "life-db"}
    text = {"type": "secret_text", "text": {"$secret": SECRET}}
    bindings = {"DB": {"type": "d1", "id": {"$of": ["db", "id"]}}, "INTERNAL_API_SECRET": text}
    return [
        {
            "kind": "CfragProvider",
            "name": "cfrag",
            "args": {"api_token": cloudflare.token, "account_id": account},
        },
        _cfrag(
            "EmbeddingSpace", "space", space | {"index": "life-384-g1", "model": "@cf/baai/bge-small-en-v1.5"}
        ),
        _cfrag("VectorizeIndex", "index", space | {"name": "life-384-g1", "deletion": deletion}, "space"),
        _cfrag(
            "VectorizeMetadataIndex",
            "tags",
            {"index": "life-384-g1", "property_name": "tags", "index_type": "string", "wait_seconds": 2},
            "index",
        ),
        {
            "kind": "cloudflare.D1Database",
            "name": "db",
            "args": {"account_id": account, "name": "life-db", "read_replication": {"mode": "disabled"}},
        },
        _cfrag(
            "D1Migrations",
            "migrations",
            {
                "database_id": {"$of": ["db", "id"]},
                "migrations": {"0001_init.sql": "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);"},
            },
        ),
        {
            "kind": "cloudflare.Queue",
            "name": "queue",
            "args": {"account_id": account, "queue_name": "life-ingest"},
        },
        {
            "kind": "cloudflare.QueueConsumer",
            "name": "consumer",
            "args": {
                "account_id": account,
                "queue_id": {"$of": ["queue", "id"]},
                "type": "http_pull",
                "settings": {"visibility_timeout_ms": 30_000},
            },
        },
        {
            "kind": "cloudflare.Worker",
            "name": "worker",
            "args": {
                "account_id": account,
                "name": "life-worker",
                "subdomain": {"enabled": True, "previews_enabled": False},
                "observability": {"enabled": True, "head_sampling_rate": 1},
            },
        },
        _cfrag(
            "WorkerVersion",
            "version",
            {
                "worker_id": {"$of": ["worker", "id"]},
                "worker": {"$of": ["worker", "name"]},
                "bundle": digest,
                "bindings": bindings,
            },
        ),
        _cfrag(
            "SpaceActivation",
            "activation",
            {
                "database_id": {"$of": ["db", "id"]},
                "queue_id": {"$of": ["queue", "id"]},
                "fingerprint": "m#1",
                "generation": 1,
                "version_id": {"$of": ["version", "version_id"]},
                "index": "life-384-g1",
                "deletion": deletion,
            },
            *("index", "tags", "migrations", "consumer"),
        ),
    ]


def _cfrag(kind: str, name: str, args: dict[str, object], *after: str) -> dict[str, object]:
    return {"kind": kind, "name": name, "args": args, "after": list(after), "provider": "cfrag"}


@pytest.fixture(scope="module")
def digest(plugin_folder: Path) -> str:
    return bundle(plugin_folder)


@pytest.fixture(scope="module")
def project(new_project: Callable[[str], Project], cloudflare: LocalCloudflare, digest: str) -> Project:
    project = new_project("life")
    project.want(stack(cloudflare, digest))
    return project


def test_a_stack_lives_from_a_broken_start_to_an_allowed_end(
    project: Project, cloudflare: LocalCloudflare, digest: str
) -> None:
    # Vectorize is too slow for the bound: what exists is kept, and the next run goes on waiting.
    cloudflare.control("PUT", "/__local/settings", {"vectorizeDelaySeconds": 8})
    output = project.up(fails=True)
    assert "life-384-g1/tags was created but not processed within 2 s" in output
    assert project.resource("tags")["initErrors"]
    cloudflare.control("PUT", "/__local/settings", {"vectorizeDelaySeconds": 0})
    project.up()

    # Nothing is left to do, also after a refresh.
    project.run("refresh", "--yes", "--skip-preview", "--expect-no-changes")
    project.preview("--expect-no-changes")

    # The state keeps no secret in clear.
    state = json.dumps(project.export())
    assert SECRET not in state
    assert cloudflare.token not in state
    assert SOURCE not in state
    assert str(project.folder) not in json.dumps(project.resource("version"))

    # What was changed by hand shows, and is repaired.
    consumer = project.resource("consumer")
    cloudflare.client.queues.consumers.delete(
        consumer["id"], account_id=cloudflare.account, queue_id=consumer["inputs"]["queueId"]
    )
    cloudflare.client.vectorize.indexes.metadata_index.delete(
        "life-384-g1", account_id=cloudflare.account, property_name="tags"
    )
    output = project.run("preview", "--refresh", "--diff")
    assert "QueueConsumer: (create)" in output
    assert "VectorizeMetadataIndex: (create)" in output
    project.up("--refresh")

    # The end of a stack that holds data is refused at its first step.
    cloudflare.fill("life-384-g1", 2, dims=384)
    before = len(project.export()["deployment"]["resources"])
    output = project.run("destroy", "--yes", "--skip-preview", fails=True)
    assert "nothing was deleted: this stack's index life-384-g1 holds 2 vectors" in output
    assert "allowDataLoss" in output
    assert len(project.export()["deployment"]["resources"]) == before

    project.want(stack(cloudflare, digest, deletion="allowed"))
    project.up()
    project.run("destroy", "--yes", "--skip-preview")
    assert not [each for each in project.export()["deployment"].get("resources", ()) if each.get("custom")]
    names = {each.name for each in cloudflare.client.vectorize.indexes.list(account_id=cloudflare.account)}
    assert "life-384-g1" not in names
