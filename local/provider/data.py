"""D1 databases, queues and their consumers."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from infra.provider.base import Inputs
from infra.provider.values import Values
from local.provider.rest import RestResource, camel


class DatabaseInputs(Inputs):
    """As `pulumi_cloudflare.D1Database` sends them."""

    account_id: str
    name: str
    jurisdiction: str | None = None
    primary_location_hint: str | None = None
    read_replication: dict[str, Any] | None = None


class D1Database(RestResource[DatabaseInputs]):
    """Only the read replication can change in place."""

    token = "cloudflare:index/d1Database:D1Database"
    model = DatabaseInputs
    outputs = ("uuid", "createdAt", "version")
    result_id = "uuid"
    replace_on: ClassVar[frozenset[str]] = frozenset(
        {"accountId", "name", "jurisdiction", "primaryLocationHint"}
    )

    def collection(self, values: Values) -> str:
        return f"/accounts/{values['accountId']}/d1/database"


class QueueInputs(Inputs):
    """As `pulumi_cloudflare.Queue` sends them."""

    account_id: str
    queue_name: str
    jurisdiction: str | None = None
    settings: dict[str, Any] | None = None


class Queue(RestResource[QueueInputs]):
    """A queue, by an id that stays when it is renamed."""

    token = "cloudflare:index/queue:Queue"
    model = QueueInputs
    outputs = ("queueId", "createdOn")
    result_id = "queue_id"
    replace_on: ClassVar[frozenset[str]] = frozenset({"accountId", "jurisdiction"})

    def collection(self, values: Values) -> str:
        return f"/accounts/{values['accountId']}/queues"


class ConsumerInputs(Inputs):
    """As `pulumi_cloudflare.QueueConsumer` sends them."""

    account_id: str
    queue_id: str
    type: Literal["worker", "http_pull"]
    script_name: str | None = None
    dead_letter_queue: str | None = None
    settings: dict[str, Any] | None = None


class QueueConsumer(RestResource[ConsumerInputs]):
    """A Worker that is sent a queue's messages, or the permission to pull them."""

    token = "cloudflare:index/queueConsumer:QueueConsumer"
    model = ConsumerInputs
    outputs = ("consumerId", "createdOn", "queueName")
    result_id = "consumer_id"
    not_sent: ClassVar[frozenset[str]] = frozenset({"accountId", "queueId"})
    clearable: ClassVar[frozenset[str]] = frozenset({"scriptName", "deadLetterQueue"})
    import_keys: ClassVar[tuple[str, ...]] = ("accountId", "queueId")
    replace_on: ClassVar[frozenset[str]] = frozenset({"accountId", "queueId", "type"})

    def collection(self, values: Values) -> str:
        return f"/accounts/{values['accountId']}/queues/{values['queueId']}/consumers"

    def seen(self, result: Values) -> Values:
        """The API takes `script_name` and answers `script`."""
        return camel({"script_name": result.get("script"), **result})
