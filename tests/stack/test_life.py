"""One stack from `pulumi up` to `pulumi destroy`, with documents in it."""

import json
from typing import Any

import pytest

from cfrag.pulumi_env import ROOT
from tests.provider.support import LocalCloudflare
from tests.stack.checkout import RAG, SECRET, Checkout
from tests.stack.conftest import NewCheckout

pytestmark = pytest.mark.xdist_group("stack-life")

DOCUMENTS = [
    {
        "id": "lambda/1",
        "title": "Lambda",
        "body": "Lambda expressions create small anonymous functions.",
        "tags": ["grammar", "prose"],
        "metadata": {"chapter": "expressions", "words": 6},
    },
    {
        "id": "del/1",
        "title": "Del",
        "body": "The del statement removes a name from the local namespace.",
        "tags": ["prose"],
        "metadata": {"chapter": "statements", "words": 10},
    },
]


@pytest.fixture(scope="module")
def stack(new_checkout: NewCheckout) -> Checkout:
    """A deployed stack that holds documents; every test leaves it as it was."""
    checkout = new_checkout("life")
    checkout.up()
    service = checkout.service()
    service.result("POST", "/v1/ingest/batch", {"documents": DOCUMENTS})
    service.search_until("del/1", "removing names")
    return checkout


def deployed(cloudflare: LocalCloudflare, prefix: str) -> dict[str, list[str]]:
    """Names of what Cloudflare holds whose name begins with `prefix`."""
    client, account = cloudflare.client, cloudflare.account
    listed: dict[str, list[Any]] = {
        "indexes": [each.name for each in client.vectorize.indexes.list(account_id=account)],
        "databases": [each.name for each in client.d1.database.list(account_id=account)],
        "queues": [each.queue_name for each in client.queues.list(account_id=account)],
        "workers": [each.name for each in client.workers.beta.workers.list(account_id=account)],
    }
    return {kind: sorted(n for n in names if str(n).startswith(prefix)) for kind, names in listed.items()}


def test_documents_go_in_and_answers_come_out(stack: Checkout) -> None:
    service = stack.service()
    assert service.search("anonymous functions")[0] == "lambda/1"
    assert service.search("anonymous functions", filter={"chapter": "statements"}) == ["del/1"]
    assert service.search("names", filter={"words": {"$lt": 8}}) == ["lambda/1"]
    assert service.search("names", tags=["grammar"]) == ["lambda/1"]
    assert service.call("GET", "/v1/docs/del/1").json()["metadata"]["words"] == 10


def test_the_same_documents_again_are_skipped(stack: Checkout) -> None:
    results = stack.service().result("POST", "/v1/ingest/batch", {"documents": DOCUMENTS})["results"]
    assert [each["status"] for each in results] == ["skipped", "skipped"]


def test_a_refresh_and_a_second_up_change_nothing(stack: Checkout) -> None:
    stack.run("refresh", "--yes", "--skip-preview", "--expect-no-changes")
    assert "unchanged" in stack.up("--expect-no-changes")


def test_a_state_export_holds_no_secret_no_path_and_no_code(
    stack: Checkout, cloudflare: LocalCloudflare
) -> None:
    exported = json.dumps(stack.state(), indent=1)
    assert "team-docs-life-worker" in exported
    for secret in (SECRET, cloudflare.token, "test-passphrase"):
        assert secret not in exported
    for path in (stack.folder, ROOT):
        # Pulumi itself notes the lines of the program that declared a resource, relative to the project.
        lines = [line for line in exported.splitlines() if "sourcePosition" not in line]
        assert not [line for line in lines if str(path) in line]
    assert "async def" not in exported
    assert len(exported) < 200_000


def test_settings_and_state_on_disk_hold_no_secret_in_clear(
    stack: Checkout, cloudflare: LocalCloudflare
) -> None:
    files = [stack.folder / "Pulumi.life.yaml", *(stack.folder / "state").rglob("*.json*")]
    assert len(files) > 1
    for path in files:
        text = path.read_bytes()
        assert SECRET.encode() not in text, path
        assert cloudflare.token.encode() not in text, path


def test_a_change_of_code_alone_replaces_the_version_and_names_its_modules(stack: Checkout) -> None:
    stack.configure({**RAG, "search": {"defaultTopK": 7}})
    steps = json.loads(stack.preview("--json"))["steps"]
    stack.configure(RAG)
    changed = {step["urn"].rsplit("::", 1)[-1]: step for step in steps if step["op"] != "same"}
    assert set(changed) == {"version", "deployment", "activation"}
    assert 'manifest["rag/settings.py"]' in changed["version"]["detailedDiff"]
    assert 'manifest["rag/core.py"]' not in changed["version"]["detailedDiff"]


def test_destroy_is_refused_before_anything_is_touched(stack: Checkout, cloudflare: LocalCloudflare) -> None:
    before = deployed(cloudflare, "team-docs-life")
    assert "protect" in stack.run("destroy", "--yes", fails=True)
    assert deployed(cloudflare, "team-docs-life") == before
    assert "allowDataLoss" in stack.run("destroy", "--yes", "--skip-preview", fails=True)
    assert deployed(cloudflare, "team-docs-life") == before
    assert stack.service().search("anonymous functions")[0] == "lambda/1"


BGE_M3 = "@cf/baai/bge-m3"


def test_an_unasked_change_of_dims_is_refused_whatever_is_targeted(
    stack: Checkout, cloudflare: LocalCloudflare
) -> None:
    before, target = deployed(cloudflare, "team-docs-life"), stack.urn("version")
    stack.configure({**RAG, "embedding": {"model": BGE_M3}})
    stack.up("--target", target, fails=True)
    stack.configure(RAG)
    assert deployed(cloudflare, "team-docs-life") == before
    assert stack.service().search("anonymous functions")[0] == "lambda/1"


def test_a_fault_in_the_config_is_one_message_with_its_key(stack: Checkout) -> None:
    stack.configure({**RAG, "serch": {}})
    said = stack.preview(fails=True)
    stack.configure(RAG)
    assert "cf-rag:rag.serch: unknown key; did you mean search?" in said
    assert "unhandled exception" not in said


def test_a_renamed_stack_may_not_leave_its_data_behind(stack: Checkout, cloudflare: LocalCloudflare) -> None:
    before = deployed(cloudflare, "team-docs")
    stack.run("stack", "rename", "renamed")
    try:
        said = stack.up(fails=True)
    finally:
        stack.run("stack", "rename", "life", "--stack", "renamed")
    assert "team-docs-life" in said
    assert deployed(cloudflare, "team-docs") == before


def test_another_stack_with_the_same_names_is_refused(
    stack: Checkout, new_checkout: NewCheckout, cloudflare: LocalCloudflare
) -> None:
    """ "team-docs" + "life" and "team" + "docs-life" name the same resources."""
    before = deployed(cloudflare, "team-docs")
    said = new_checkout("docs-life", {**RAG, "name": "team"}).up(fails=True)
    assert "team-docs-life-768-g1" in said
    assert "cf-rag/life" in said
    assert deployed(cloudflare, "team-docs") == before
    assert stack.service().search("anonymous functions")[0] == "lambda/1"


def test_data_goes_only_when_it_is_said_then_deployed_then_destroyed(
    stack: Checkout, cloudflare: LocalCloudflare
) -> None:
    stack.configure({**RAG, "allowDataLoss": True})
    stack.up()
    stack.run("destroy", "--yes", "--skip-preview")
    assert deployed(cloudflare, "team-docs-life") == {
        "indexes": [],
        "databases": [],
        "queues": [],
        "workers": [],
    }
    assert stack.resources() == {}
