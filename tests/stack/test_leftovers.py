"""What is in the way of a resource that is about to be made: removed while empty, refused in use."""

import base64
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from infra import leftovers
from infra.errors import CfragError
from tests.provider.support import LocalCloudflare


@pytest.fixture
def name() -> str:
    return f"left-{uuid4().hex[:12]}"


@pytest.fixture
def free(cloudflare: LocalCloudflare) -> Callable[..., None]:
    def run(function: leftovers.Free, **inputs: Any) -> None:
        function(cloudflare.client, cloudflare.account, inputs)

    return run


def databases(cloudflare: LocalCloudflare) -> set[str]:
    return {str(each.name) for each in cloudflare.client.d1.database.list(account_id=cloudflare.account)}


def queues(cloudflare: LocalCloudflare) -> set[str]:
    return {str(each.queue_name) for each in cloudflare.client.queues.list(account_id=cloudflare.account)}


def workers(cloudflare: LocalCloudflare) -> set[str]:
    return {each.name for each in cloudflare.client.workers.beta.workers.list(account_id=cloudflare.account)}


def new_queue(cloudflare: LocalCloudflare, name: str, *, consumed: bool) -> str:
    """The id of a new queue; `consumed` lets it be pulled from."""
    made = cloudflare.client.queues.create(account_id=cloudflare.account, queue_name=name)
    assert made
    queue = str(made.queue_id)
    if consumed:
        cloudflare.client.queues.consumers.create(queue, account_id=cloudflare.account, type="http_pull")
    return queue


def upload(cloudflare: LocalCloudflare, worker_id: str) -> None:
    code = base64.b64encode(b"export default { fetch: () => new Response('ok') }").decode()
    module = {"name": "index.js", "content_type": "application/javascript+module", "content_base64": code}
    cloudflare.client.workers.beta.workers.versions.create(
        worker_id,
        account_id=cloudflare.account,
        main_module="index.js",
        compatibility_date="2026-01-01",
        modules=[module],  # type: ignore[list-item]
    )


def test_an_empty_database_is_removed_and_one_with_a_longer_name_is_not(
    cloudflare: LocalCloudflare, free: Callable[..., None], name: str
) -> None:
    for each in (name, f"{name}-2"):
        cloudflare.client.d1.database.create(account_id=cloudflare.account, name=each)
    free(leftovers.free_database, name=name)
    assert name not in databases(cloudflare)
    assert f"{name}-2" in databases(cloudflare)


def test_a_database_with_a_table_is_left_alone_and_named(
    cloudflare: LocalCloudflare, free: Callable[..., None], name: str
) -> None:
    client, account = cloudflare.client, cloudflare.account
    made = client.d1.database.create(account_id=account, name=name)
    list(client.d1.database.query(str(made.uuid), account_id=account, sql="CREATE TABLE documents (id TEXT)"))
    with pytest.raises(CfragError, match=rf"D1 database {name} exists and holds tables.*{made.uuid}"):
        free(leftovers.free_database, name=name)
    assert name in databases(cloudflare)


def test_where_nothing_is_in_the_way_nothing_happens(free: Callable[..., None], name: str) -> None:
    free(leftovers.free_database, name=name)
    free(leftovers.free_queue, queueName=name)
    free(leftovers.free_worker, name=name)


def test_an_unused_queue_is_removed(
    cloudflare: LocalCloudflare, free: Callable[..., None], name: str
) -> None:
    new_queue(cloudflare, name, consumed=False)
    free(leftovers.free_queue, queueName=name)
    assert name not in queues(cloudflare)


def test_a_queue_with_a_consumer_is_left_alone_and_named(
    cloudflare: LocalCloudflare, free: Callable[..., None], name: str
) -> None:
    new_queue(cloudflare, name, consumed=True)
    with pytest.raises(CfragError, match=f"queue {name} exists and is in use"):
        free(leftovers.free_queue, queueName=name)
    assert name in queues(cloudflare)


def test_an_equal_consumer_is_removed_and_another_is_not(
    cloudflare: LocalCloudflare, free: Callable[..., None], name: str
) -> None:
    client, account = cloudflare.client, cloudflare.account
    queue = new_queue(cloudflare, name, consumed=True)
    free(leftovers.free_consumer, queueId=queue, type="worker", scriptName="somebody")
    assert list(client.queues.consumers.list(queue, account_id=account))
    free(leftovers.free_consumer, queueId=queue, type="http_pull")
    assert not list(client.queues.consumers.list(queue, account_id=account))


def test_a_worker_without_a_version_is_removed(
    cloudflare: LocalCloudflare, free: Callable[..., None], name: str
) -> None:
    cloudflare.client.workers.beta.workers.create(account_id=cloudflare.account, name=name)
    free(leftovers.free_worker, name=name)
    assert name not in workers(cloudflare)


def test_a_worker_with_a_version_is_left_alone_and_named(
    cloudflare: LocalCloudflare, free: Callable[..., None], name: str
) -> None:
    made = cloudflare.client.workers.beta.workers.create(account_id=cloudflare.account, name=name)
    upload(cloudflare, made.id)
    with pytest.raises(CfragError, match=f"Worker {name} exists and has versions"):
        free(leftovers.free_worker, name=name)
    assert name in workers(cloudflare)
