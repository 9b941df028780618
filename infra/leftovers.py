"""What a killed `pulumi up` made but could not record: removed while empty, before it is made again."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi import ResourceHook, ResourceHookArgs, ResourceHookBinding

from infra.errors import CfragError
from infra.provider.account import Account
from infra.provider.adoption import TABLES

if TYPE_CHECKING:
    from cloudflare import Cloudflare

Inputs = dict[str, Any]
Free = Callable[["Cloudflare", str, Inputs], None]


class Leftovers:
    """Hooks that the engine calls right before it creates a resource, so only where its state has none.

    A name that somebody else uses ends the run with one message.
    """

    def __init__(self, account_id: str, api_token: pulumi.Output[str], prefix: str = "") -> None:
        self._account_id = account_id
        self._api_token = api_token
        # Hooks have one name each in a program.
        self._prefix = prefix
        self.database = self._before_create("leftover-database", free_database)
        self.queue = self._before_create("leftover-queue", free_queue)
        self.consumer = self._before_create("leftover-consumer", free_consumer)
        self.worker = self._before_create("leftover-worker", free_worker)

    def _before_create(self, name: str, free: Free) -> ResourceHookBinding:
        async def hook(args: ResourceHookArgs) -> None:
            token = await self._api_token.future()
            account = Account({"apiToken": token or "", "accountId": self._account_id})
            inputs = dict(args.new_inputs or {})
            await account.call(f"make room for {args.name}", lambda client: free(client, account.id, inputs))

        return ResourceHookBinding(before_create=[ResourceHook(self._prefix + name, hook)])


def free_database(client: "Cloudflare", account_id: str, inputs: Inputs) -> None:
    """Delete an empty D1 database of the wanted name. Raises CfragError for one that holds tables."""
    name = inputs["name"]
    for found in _named(client.d1.database.list(account_id=account_id, name=name), "name", name):
        if user_tables(client, account_id, str(found.uuid)):
            raise _taken("D1 database", name, "holds tables", f"{account_id}/{found.uuid}")
        client.d1.database.delete(str(found.uuid), account_id=account_id)


def user_tables(client: "Cloudflare", account_id: str, database: str) -> list[str]:
    """The tables that somebody has made in a database."""
    (answer,) = client.d1.database.query(database, account_id=account_id, sql=TABLES)
    return [str(row["name"]) for row in answer.results or ()]  # type: ignore[index]


def free_queue(client: "Cloudflare", account_id: str, inputs: Inputs) -> None:
    """Delete a queue of the wanted name that nobody uses. Raises CfragError for one in use."""
    name = inputs["queueName"]
    for found in _named(client.queues.list(account_id=account_id), "queue_name", name):
        if found.consumers_total_count or found.producers_total_count:
            raise _taken("queue", name, "is in use", f"{account_id}/{found.queue_id}")
        client.queues.delete(str(found.queue_id), account_id=account_id)


def free_consumer(client: "Cloudflare", account_id: str, inputs: Inputs) -> None:
    """Remove an equal consumer from a queue of this stack; it is made again at once."""
    queue = inputs["queueId"]
    for found in client.queues.consumers.list(queue, account_id=account_id):
        script = getattr(found, "script", None) or getattr(found, "script_name", None)
        if (found.type, script) == (inputs["type"], inputs.get("scriptName")):
            client.queues.consumers.delete(str(found.consumer_id), account_id=account_id, queue_id=queue)


def free_worker(client: "Cloudflare", account_id: str, inputs: Inputs) -> None:
    """Delete a Worker of the wanted name without any version. Raises CfragError for one with code."""
    name, workers = inputs["name"], client.workers.beta.workers
    for found in _named(workers.list(account_id=account_id), "name", name):
        if list(workers.versions.list(found.id, account_id=account_id)):
            raise _taken("Worker", name, "has versions", f"{account_id}/{found.id}")
        workers.delete(found.id, account_id=account_id)


def _named(found: Iterable[Any], attribute: str, name: str) -> Iterator[Any]:
    """The ones with exactly this name: the API's filters also find names that only contain it."""
    return (each for each in list(found) if getattr(each, attribute) == name)


def _taken(kind: str, name: str, why: str, identity: str) -> CfragError:
    return CfragError(
        f"{kind} {name} exists and {why}, but this stack's state does not know it ({identity}): choose "
        "another cf-rag:rag.name or stack name, or set cf-rag:rag.adopt: true to take it over"
    )
