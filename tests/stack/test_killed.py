"""A `pulumi up` that is killed, again and again, and the next one that goes on."""

import pytest

from tests.stack.checkout import Checkout
from tests.stack.conftest import NewCheckout

pytestmark = pytest.mark.xdist_group("stack-killed")

# What the killed run has just begun; each needs those before it, so it is still to come after their kill.
MOMENTS = [
    "VectorizeIndex index-g1 creating",
    "D1Migrations migrations creating",
    "Worker worker creating",
    "WorkerVersion version creating (0s) uploading",
    "WorkersDeployment deployment creating",
    "SpaceActivation activation creating",
]


@pytest.fixture(scope="module")
def survivor(new_checkout: NewCheckout) -> Checkout:
    """A stack whose every moment of making was cut short once, then deployed."""
    checkout = new_checkout("killed")
    for moment in MOMENTS:
        checkout.kill_up_after(moment)
        checkout.unlock()
    checkout.up()
    return checkout


def test_the_stack_is_complete(survivor: Checkout) -> None:
    survivor.run("refresh", "--yes", "--skip-preview", "--clear-pending-creates")
    survivor.preview("--expect-no-changes")
    assert "pending_operations" not in survivor.state()["deployment"]


def test_the_service_answers(survivor: Checkout) -> None:
    service = survivor.service()
    document = {"id": "one", "body": "A document about kites.", "metadata": {"words": 4}}
    assert service.result("POST", "/v1/ingest", document)["status"] == "indexed"
    assert service.search_until("one", "kites", filter={"words": 4}) == ["one"]
