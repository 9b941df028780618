"""Drift from outside on a stack with documents: shown, repaired without loss, or refused with what to do."""

import time
from typing import Any

import pytest
import yaml

from cfrag.pulumi_env import ROOT
from tests.provider.support import LocalCloudflare
from tests.stack.checkout import Checkout, Json, Service
from tests.stack.conftest import NewCheckout
from tests.stack.declared import declare

pytestmark = pytest.mark.xdist_group("stack-drift")

CHAPTERS = ("expressions", "statements", "imports")
DOCUMENTS: list[Json] = [
    {
        "id": f"doc/{number:02}",
        "title": f"Part {number}",
        "body": f"What the reference says in part {number} of it.",
        "tags": ["even" if number % 2 == 0 else "odd"],
        "metadata": {"chapter": CHAPTERS[number % 3], "words": number},
    }
    for number in range(24)
]


@pytest.fixture(scope="module")
def stack(new_checkout: NewCheckout) -> Checkout:
    checkout = new_checkout("drift")
    checkout.up()
    checkout.service().result("POST", "/v1/ingest/batch", {"documents": DOCUMENTS})
    everything_is_found(checkout.service())
    return checkout


def contents(service: Service) -> dict[str, Json]:
    """Every document as it was ingested, by id."""
    listed = service.result("GET", "/v1/docs")["documents"]
    found = {each["id"]: service.result("GET", f"/v1/docs/{each['id']}") for each in listed}
    kept = ("id", "title", "body", "tags", "metadata")
    return {name: {key: each[key] for key in kept} for name, each in found.items()}


def everything_is_found(service: Service) -> None:
    """By every kind of condition; none of these searches is ever answered in part."""
    conditions: list[tuple[Json, set[str]]] = [
        ({}, {each["id"] for each in DOCUMENTS}),
        ({"tags": ["odd"]}, {each["id"] for each in DOCUMENTS if each["tags"] == ["odd"]}),
        ({"filter": {"words": {"$gte": 12}}}, {f"doc/{number:02}" for number in range(12, 24)}),
    ]
    conditions += [
        ({"filter": {"chapter": chapter}}, {f"doc/{number:02}" for number in range(at, 24, 3)})
        for at, chapter in enumerate(CHAPTERS)
    ]
    for condition, wanted in conditions:
        assert answer(service, condition) == wanted, condition


def answer(service: Service, condition: Json) -> set[str]:
    """The ids that a search finds, asked again while it says that it could not find all of them."""
    body = {"query": "the reference", "topK": 50, **condition}
    end = time.monotonic() + 120
    while (response := service.call("POST", "/v1/search", body)).status_code == 409:
        assert time.monotonic() < end, response.text
        time.sleep(1)
    assert response.is_success, response.text
    return {hit["id"] for hit in response.json()["hits"]}


def settled(service: Service) -> None:
    """Wait until the sweep is done with every document: looked through, and known to be of the model."""
    end = time.monotonic() + 120
    while True:
        stats = service.result("GET", "/v1/stats")
        counts = stats["documents"]
        if not counts["pending"] and not stats["progress"] and set(counts["byModel"]) == {stats["model"]}:
            return
        assert time.monotonic() < end, stats
        time.sleep(1)


def operations(said: str) -> dict[str, str]:
    """What a preview is about to do, by logical name; refreshes don't count."""
    found = [line.split() for line in said.splitlines()]
    kinds = {"create", "update", "replace"}
    named = (words for words in found if len(words) > 3 and ":" in words[1])
    return {words[2]: words[3] for words in named if words[3] in kinds}


def drift(cloudflare: LocalCloudflare, outputs: Json, first_version: str) -> None:
    """What a person does in the dashboard, with wrangler and by mistake."""
    client, account = cloudflare.client, cloudflare.account
    for name in ("chapter", "active"):
        client.vectorize.indexes.metadata_index.delete(
            outputs["indexName"], account_id=account, property_name=name
        )
    # The consumer of one queue is changed, that of the other one goes with its queue.
    (consumer,) = client.queues.consumers.list(outputs["queueId"], account_id=account)
    path = f"/accounts/{account}/queues/{outputs['queueId']}/consumers/{consumer.consumer_id}"
    settings = {"batch_size": 3, "max_retries": 1}
    body = {"type": "worker", "script_name": outputs["workerName"], "settings": settings}
    client.put(path, cast_to=object, body=body | {"dead_letter_queue": outputs["dlqName"]})
    client.queues.delete(outputs["dlqId"], account_id=account)
    cloudflare.sql(outputs["databaseId"], "INSERT INTO d1_migrations(name) VALUES ('0002_by_hand.sql')")
    client.with_options(timeout=240).workers.scripts.deployments.create(
        outputs["workerName"],
        account_id=account,
        strategy="percentage",
        versions=[{"percentage": 100, "version_id": first_version}],
    )


def second_version(cloudflare: LocalCloudflare, outputs: Json) -> str:
    """Upload the code once more, as somebody without Pulumi would; the version's id."""
    account, workers = cloudflare.account, cloudflare.client.workers.beta.workers
    (worker,) = (each for each in workers.list(account_id=account) if each.name == outputs["workerName"])
    version = workers.versions.get(
        outputs["versionId"], account_id=account, worker_id=worker.id, include="modules"
    )
    copied: Any = version.to_dict()
    kept = {
        key: copied[key] for key in ("main_module", "compatibility_date", "compatibility_flags", "modules")
    }
    # Nobody can read a secret.
    bindings: Any = [
        {"type": "inherit", "name": each["name"]} if each["type"] == "secret_text" else each
        for each in copied["bindings"]
    ]
    made = workers.versions.create(worker.id, account_id=account, bindings=bindings, **kept)
    return str(made.id)


def test_the_settings_for_prod_protect_the_index_and_the_database() -> None:
    settings = yaml.safe_load((ROOT / "Pulumi.prod.yaml").read_text())
    found, _ = declare(settings["config"]["cf-rag:rag"])
    assert {name for name, each in found.items() if each.protect} == {"index-g1", "db"}
    assert found["activation"].inputs["deletion"] == "protected"


def test_drift_of_many_kinds_is_shown_by_one_preview_and_repaired_by_one_up(
    stack: Checkout, cloudflare: LocalCloudflare
) -> None:
    before, outputs = contents(stack.service()), stack.outputs()
    assert before == {each["id"]: each for each in DOCUMENTS}
    drift(cloudflare, outputs, second_version(cloudflare, outputs))

    said = stack.preview("--refresh")
    assert operations(said) == {
        "g1-chapter": "create",
        "g1-active": "create",
        "consumer": "update",
        "ingest-dlq": "create",
        "ingest-dlq-consumer": "create",
        "version": "replace",
        "deployment": "replace",
        "activation": "update",
    }
    assert "0002_by_hand.sql" in said
    assert "which this stack did not deploy" in said

    stack.up("--refresh")
    everything_is_found(stack.service())
    assert contents(stack.service()) == before
    (consumer,) = cloudflare.client.queues.consumers.list(outputs["queueId"], account_id=cloudflare.account)
    assert consumer.settings
    assert consumer.settings.max_retries == 5


def test_a_database_that_was_deleted_is_made_again_from_the_vectors(
    stack: Checkout, cloudflare: LocalCloudflare
) -> None:
    before, outputs = contents(stack.service()), stack.outputs()
    cloudflare.client.d1.database.delete(outputs["databaseId"], account_id=cloudflare.account)
    said = stack.up("--refresh")
    assert "knew nothing of 24 documents" in said
    settled(stack.service())
    everything_is_found(stack.service())
    assert contents(stack.service()) == before
    results = stack.service().result("POST", "/v1/ingest/batch", {"documents": DOCUMENTS})["results"]
    assert {each["status"] for each in results} == {"skipped"}
    stack.preview("--refresh", "--expect-no-changes")


def test_the_database_goes_by_no_flag_of_the_cli(stack: Checkout, cloudflare: LocalCloudflare) -> None:
    target = ("--target", stack.urn("db"), "--target-dependents")
    said = stack.run("destroy", "--yes", "--skip-preview", *target, fails=True)
    assert "nothing was deleted" in said
    assert "knows 24 documents" in said
    said = stack.up(*target, "--replace", stack.urn("db"), fails=True)
    assert "unable to replace resource" in said
    assert contents(stack.service()) == {each["id"]: each for each in DOCUMENTS}


def test_a_deleted_index_is_not_made_again_as_if_nothing_was_lost(
    stack: Checkout, cloudflare: LocalCloudflare
) -> None:
    name = stack.outputs()["indexName"]
    cloudflare.client.vectorize.indexes.delete(name, account_id=cloudflare.account)
    said = stack.preview("--refresh", fails=True)
    assert f"index {name} does not exist any more, and with it the content of 24 documents" in said
    assert f"CFRAG_CREATE_INDEX={name}" in said
    stack.environment["CFRAG_CREATE_INDEX"] = name
    stack.up("--refresh")
    assert stack.service().result("GET", "/v1/stats")["documents"]["pending"] == 24
    results = stack.service().result("POST", "/v1/ingest/batch", {"documents": DOCUMENTS})["results"]
    assert {each["status"] for each in results} == {"indexed"}
    everything_is_found(stack.service())
