"""Queues, consumers and messages: from what requests say, and as the API shows them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

from local import limits
from local.queues import settings as tables
from local.queues.messages import pulled
from local.queues.settings import settings
from local.queues.store import ConsumerRow, MessageRow, QueueRow

JsonObject = dict[str, Any]


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def batch_size(raw: JsonObject) -> int:
    size = tables.number("batch_size", raw.get("batch_size"), tables.PULL_BATCH, limits.CONSUMER_SETTINGS)
    return cast(int, size)


def entries(raw: Any, what: str) -> list[JsonObject]:
    if raw is None:
        return []
    if not isinstance(raw, list) or not all(isinstance(entry, dict) for entry in raw):
        raise limits.QUEUE_BODY(problem=f"{what} must be an array of objects")
    return raw


def consumer_row(name: str, queue: str, raw: JsonObject, created_on: str) -> ConsumerRow:
    kind, script = raw.get("type"), raw.get("script_name")
    if kind not in ("worker", "http_pull"):
        raise limits.CONSUMER_SETTINGS(problem=f"type must be worker or http_pull, got {kind!r}")
    if kind == "worker" and (not isinstance(script, str) or not script):
        raise limits.CONSUMER_SETTINGS(problem="script_name is required")
    table = tables.WORKER_CONSUMER if kind == "worker" else tables.PULL_CONSUMER
    made = settings(table, raw.get("settings"), limits.CONSUMER_SETTINGS)
    dead = raw.get("dead_letter_queue") or None
    return ConsumerRow(name, queue, kind, script if kind == "worker" else None, dead, made, created_on)


def consumer_object(row: ConsumerRow, queue_name: str) -> JsonObject:
    made: JsonObject = {
        "consumer_id": row.id,
        "queue_name": queue_name,
        "type": row.type,
        "created_on": row.created_on,
        "settings": row.settings,
    }
    if row.dead_letter_queue is not None:
        made["dead_letter_queue"] = row.dead_letter_queue
    if row.script is not None:
        # The API answers with `script`; the current SDK's types read `script_name`.
        made |= {"script": row.script, "script_name": row.script}
    return made


def message_object(message: MessageRow) -> JsonObject:
    return {
        "id": message.id,
        "body": pulled(message.body, message.content_type),
        "timestamp_ms": int(message.sent_at * 1000),
        "attempts": message.attempts,
        "metadata": {"CF-Content-Type": message.content_type, "CF-sourceMessageSource": "api"},
    }


def queue_object(row: QueueRow, consumers: Iterable[ConsumerRow], scripts: Iterable[str]) -> JsonObject:
    producers = [{"type": "worker", "script": script} for script in scripts]
    shown = [consumer_object(one, row.name) for one in consumers]
    return {
        "queue_id": row.id,
        "queue_name": row.name,
        "created_on": row.created_on,
        "modified_on": row.modified_on,
        "producers": producers,
        "producers_total_count": len(producers),
        "consumers": shown,
        "consumers_total_count": len(shown),
        "settings": {"delivery_paused": row.paused, **row.settings},
    }


def metrics_object(measured: tuple[int, int, float | None]) -> JsonObject:
    count, size, oldest = measured
    return {
        "backlog_count": count,
        "backlog_bytes": size,
        "oldest_message_timestamp_ms": 0 if oldest is None else int(oldest * 1000),
    }
