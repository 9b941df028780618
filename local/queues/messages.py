"""Messages on their way into a queue: checked, measured and kept as text."""

import base64
import binascii
import json
from typing import Any, NamedTuple

from infra import catalog
from local import limits
from local.queues.settings import delay

CONTENT_TYPES = ("json", "text", "bytes", "v8")


class NewMessage(NamedTuple):
    """A message to store. `body` is JSON text for json, base64 for bytes and v8, the text itself for text."""

    body: str
    content_type: str
    size: int
    delay: int | None


def new_messages(raw: Any) -> list[NewMessage]:
    """Check a batch of `{body, contentType, delaySeconds?}` (snake case works, too).

    Raises ApiError 10204 for a message and 10205 or 10206 for a batch over the limits.
    """
    if not isinstance(raw, list) or not raw:
        raise limits.QUEUE_BODY(problem="messages must be a non-empty array")
    if len(raw) > catalog.QUEUE_SEND_BATCH.value:
        raise limits.SEND_BATCH_COUNT(actual=len(raw))
    messages = [new_message(one) for one in raw]
    total = sum(message.size for message in messages)
    if total > catalog.QUEUE_SEND_BATCH_BYTES.value:
        raise limits.SEND_BATCH_BYTES(actual=total)
    return messages


def new_message(raw: Any) -> NewMessage:
    if not isinstance(raw, dict) or "body" not in raw:
        raise limits.QUEUE_BODY(problem="a message must be an object with a body")
    content_type = raw.get("contentType", raw.get("content_type")) or "json"
    if content_type not in CONTENT_TYPES:
        raise limits.MESSAGE_INVALID(problem=f"unknown content type {content_type!r}")
    body, content = _encoded(raw["body"], content_type)
    size = content + limits.QUEUE_OVERHEAD_BYTES
    if size > catalog.QUEUE_MESSAGE_BYTES.value:
        raise limits.MESSAGE_BYTES(actual=size)
    return NewMessage(body, content_type, size, delay(raw.get("delaySeconds", raw.get("delay_seconds"))))


def decoded(body: str, content_type: str) -> Any:
    """The body as a Worker's host gets it: a JSON value, or base64 for bytes and v8."""
    return json.loads(body) if content_type == "json" else body


def pulled(body: str, content_type: str) -> str:
    """The body as a pull consumer gets it: text is plain, everything else base64."""
    return base64.b64encode(body.encode()).decode() if content_type == "json" else body


def _encoded(body: Any, content_type: str) -> tuple[str, int]:
    if content_type == "json":
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        return text, len(text.encode(errors="replace"))
    if not isinstance(body, str):
        raise limits.MESSAGE_INVALID(problem=f"the body of a {content_type} message must be a string")
    if content_type == "text":
        return body, len(body.encode(errors="replace"))
    try:
        return body, len(base64.b64decode(body, validate=True))
    except binascii.Error as error:
        raise limits.MESSAGE_INVALID(problem="the body is not base64") from error
