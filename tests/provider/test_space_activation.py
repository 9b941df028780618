"""The last step of a deployment, and the first of its end."""

from typing import Any

import pytest

from infra.errors import CfragError
from infra.provider.values import Values
from tests.provider.rows import filled
from tests.provider.support import Direct, LocalCloudflare

KIND = "SpaceActivation"
META = "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT)"


def pulled(cloudflare: LocalCloudflare, queue: str) -> list[Any]:
    """The bodies of all messages in a queue."""
    answer = cloudflare.client.queues.messages.pull(queue, account_id=cloudflare.account, batch_size=10)
    return [message.body for message in (answer.messages if answer else None) or ()]


def queue(cloudflare: LocalCloudflare, name: str) -> str:
    made = cloudflare.client.queues.create(account_id=cloudflare.account, queue_name=name)
    assert made is not None
    assert made.queue_id
    cloudflare.client.queues.consumers.create(made.queue_id, account_id=cloudflare.account, type="http_pull")
    return made.queue_id


async def test_the_wanted_space_is_written_and_work_starts(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    database, messages = cloudflare.database("activated", META), queue(cloudflare, "activated")
    said: Values = {"databaseId": database, "queueId": messages, "fingerprint": "m#1", "generation": 1}
    inputs = await direct.checked(KIND, said)
    made, state = await direct.create(KIND, inputs)
    assert cloudflare.sql(database, "SELECT * FROM meta ORDER BY key") == [
        {"key": "desired_fingerprint", "value": "m#1"},
        {"key": "desired_generation", "value": "1"},
    ]
    assert len(pulled(cloudflare, messages)) == 1

    changed = inputs | {"fingerprint": "m#2", "generation": 2, "schemaRevision": "abc"}
    await direct.update(KIND, made, state, changed)
    assert await direct.read(KIND, made, state) == changed
    assert changed["deletion"] == "protected"
    assert len(pulled(cloudflare, messages)) == 1


async def test_a_change_of_the_lock_alone_starts_no_work(direct: Direct, cloudflare: LocalCloudflare) -> None:
    database, messages = cloudflare.database("quiet", META), queue(cloudflare, "quiet")
    inputs: Values = {"databaseId": database, "queueId": messages, "fingerprint": "m#1", "generation": 1}
    made, state = await direct.create(KIND, inputs)
    assert len(pulled(cloudflare, messages)) == 1
    await direct.update(KIND, made, state, inputs | {"deletion": "allowed"})
    assert pulled(cloudflare, messages) == []


async def test_one_whose_database_or_rows_are_gone_is_missing(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    assert await direct.read(KIND, "00000000-0000-0000-0000-000000000000") is None
    assert await direct.read(KIND, cloudflare.database("no-rows", META)) is None
    assert await direct.read(KIND, cloudflare.database("no-table")) is None


async def test_the_end_of_a_stack_with_an_index_is_refused_unless_allowed(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    index = cloudflare.index("ending", vectors=2)
    with pytest.raises(CfragError, match=r"nothing was deleted: .* ending holds 2 vectors") as refused:
        await direct.delete(KIND, "db", {"index": index, "deletion": "protected"})
    assert "allowDataLoss" in str(refused.value)
    await direct.delete(KIND, "db", {"index": index, "deletion": "allowed"})
    await direct.delete(KIND, "db", {"index": "already-gone", "deletion": "protected"})


async def test_a_database_with_documents_is_kept_too_until_it_is_named(
    direct: Direct, cloudflare: LocalCloudflare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the index is gone already, or was named."""
    database = filled(cloudflare, "keeping-db", 2)
    index = cloudflare.index("keeping", vectors=1)
    state = {"databaseId": database, "index": index, "deletion": "protected"}
    monkeypatch.setenv("CFRAG_DELETE_INDEX", index)
    with pytest.raises(CfragError, match=f"nothing was deleted: its database {database} knows 2 documents"):
        await direct.delete(KIND, database, state)
    with pytest.raises(CfragError, match="knows 2 documents"):
        await direct.delete(KIND, database, state | {"index": "gone-already"})
    monkeypatch.setenv("CFRAG_DELETE_DATABASE", database)
    await direct.delete(KIND, database, state)
