"""A stack whose state is lost: `adopt` takes up everything that exists, and loses and doubles nothing."""

import shutil
from typing import Any

import pytest

from tests.provider.support import LocalCloudflare
from tests.stack.checkout import RAG, Checkout, Json, Service
from tests.stack.conftest import NewCheckout
from tests.stack.test_life import DOCUMENTS, deployed

pytestmark = pytest.mark.xdist_group("stack-adoption")

IDS = ("databaseId", "queueId", "dlqId")


def contents(service: Service) -> dict[str, Json]:
    """Every document as the service has it, by id."""
    listed = service.result("GET", "/v1/docs")["documents"]
    return {each["id"]: service.result("GET", f"/v1/docs/{each['id']}") for each in listed}


def lose_state(stack: Checkout, cloudflare: LocalCloudflare) -> None:
    """Nothing is left of the stack but what Cloudflare has of it."""
    shutil.rmtree(stack.folder / "state/.pulumi")
    (stack.folder / f"Pulumi.{stack.stack}.yaml").unlink()
    stack.init(cloudflare)


def imported(said: str) -> set[str]:
    """Logical names of the resources that a preview wants to import."""
    lines = (line.split() for line in said.splitlines())
    return {words[2] for words in lines if words[:1] == ["="] and words[-1] == "import" and ":" in words[1]}


def changed_by_hand(cloudflare: LocalCloudflare, outputs: Json) -> None:
    """A queue that keeps its messages for less long than the config says."""
    body = {"queue_name": outputs["dlqName"], "settings": {"message_retention_period": 86400}}
    path = f"/accounts/{cloudflare.account}/queues/{outputs['dlqId']}"
    cloudflare.client.put(path, cast_to=object, body=body)


def retention(cloudflare: LocalCloudflare, queue: str) -> Any:
    found = cloudflare.client.queues.get(queue, account_id=cloudflare.account)
    assert found
    assert found.settings
    return found.settings.message_retention_period


def test_a_lost_state_is_made_again_from_what_exists(
    new_checkout: NewCheckout, cloudflare: LocalCloudflare
) -> None:
    stack = new_checkout("lost")
    stack.up()
    outputs, service = stack.outputs(), stack.service()
    service.result("POST", "/v1/ingest/batch", {"documents": DOCUMENTS})
    service.search_until("del/1", "removing names")
    before, held = contents(service), deployed(cloudflare, "team-docs-lost")
    assert len(before) == len(DOCUMENTS)
    lose_state(stack, cloudflare)
    changed_by_hand(cloudflare, outputs)

    misfit: Json = {**RAG, "adopt": True, "metadata": {**RAG["metadata"], "chapter": {"type": "number"}}}  # type: ignore[dict-item]
    stack.configure(misfit)
    said = stack.preview(fails=True)
    assert "cf-rag:rag.adopt: nothing was touched, since not all can be taken over" in said
    assert "has a metadata index chapter of type string, not number" in said

    stack.configure({**RAG, "adopt": True})
    assert imported(stack.preview()) == {"db", "ingest", "ingest-dlq", "worker"}
    stack.up()
    assert {name: stack.outputs()[name] for name in IDS} == {name: outputs[name] for name in IDS}
    assert retention(cloudflare, outputs["dlqId"]) == 14 * 86400, "and settings are the config's again"
    assert deployed(cloudflare, "team-docs-lost") == held
    assert contents(service) == before
    assert service.search("names", filter={"chapter": "statements"}) == ["del/1"]

    # What the state knows is no second time imported: the engine would replace it.
    stack.up("--expect-no-changes")
    stack.configure(RAG)
    stack.preview("--refresh", "--expect-no-changes")
