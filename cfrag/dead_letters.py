"""The dead-letter queue of a stack: looked at without a delivery, sent again, removed."""

import base64
import binascii
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cfrag.groups import grouped
from cfrag.stack_account import StackAccount
from infra.catalog import QUEUE_CONSUMER_BATCH, QUEUE_SEND_BATCH, QUEUE_SEND_BATCH_BYTES

if TYPE_CHECKING:
    from cloudflare.types.queues.message_bulk_push_params import Message as Push
    from cloudflare.types.queues.message_peek_response import Message as Peeked

PEEK = QUEUE_CONSUMER_BATCH.value  # a peek has no cursor: what is behind these can't be seen
_OVERHEAD_BYTES = 100  # what the queue adds to each message
# A Date header has whole seconds, and some servers renew it only once in one.
_SLACK = timedelta(seconds=2)
_ENVELOPE = frozenset({"reason", "error", "attempts", "original"})


@dataclass(frozen=True)
class DeadLetter:
    """A message that was given up: by the Worker, with its reason, or by the queue when retries ran out.

    `original` is what the ingest queue held; `unreadable` says why it can't be known.
    """

    id: str
    ref: str
    since: datetime
    original: Any
    content_type: str = "json"
    reason: str | None = None
    error: dict[str, Any] | None = None
    attempts: int | None = None
    unreadable: str | None = None

    @property
    def about(self) -> str:
        """What it was to do, without any text of a document."""
        body = self.original
        if not isinstance(body, dict):
            return f"unknown ({self.content_type})"
        if isinstance(document := body.get("doc"), dict):
            return f"document {document.get('id')}"
        ids = body.get("ids")
        named = ", ".join(map(str, ids)) if isinstance(ids, list) else ""
        return f"{body.get('kind', 'unknown')} {named}".strip()

    @property
    def why(self) -> str:
        return self.reason or self.unreadable or "its retries ran out"

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "since": self.since.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "about": self.about,
            "reason": self.why,
            "error": self.error,
            "attempts": self.attempts,
            "original": self.original,
        }


@dataclass
class Outcome:
    """What became of messages: ids that are `done`, and why others `failed`."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


class DeadLetterQueue:
    """Peeks, so that looking uses up no delivery attempt; a peek's refs are what removes a message."""

    def __init__(self, account: StackAccount) -> None:
        self._account = account
        self.name = account.names.dlq

    def count(self) -> int:
        """How many messages it holds, as far as Cloudflare knows at the moment."""
        metrics = self._account.call(
            "count the dead letters",
            lambda client: client.queues.get_metrics(self._id, account_id=self._account.id),
        )
        return int(metrics.backlog_count) if metrics else 0

    def peek(self, limit: int = PEEK) -> list[DeadLetter]:
        """The oldest messages."""
        return self._peek(limit)[0]

    def drop(self, letters: Sequence[DeadLetter]) -> Outcome:
        """Remove them for good; one that is gone already is fine."""
        outcome = Outcome()
        for group in _groups([(letter, 0) for letter in letters]):
            outcome.done += self._remove(group)
        return outcome

    def replay(self, letters: Sequence[DeadLetter]) -> Outcome:
        """Send what they hold to the ingest queue, and remove each after it was taken there.

        Killed between the two, a message is in both queues; to replay it again changes nothing.
        """
        outcome = Outcome()
        sendable = []
        for letter in letters:
            if letter.unreadable:
                outcome.failed[letter.id] = letter.unreadable
            else:
                sendable.append((letter, _bytes(letter)))
        for group in _groups(sendable):
            self._send(group)
            outcome.done += self._remove(group)
        return outcome

    def all_of_now(
        self, work: Callable[[Sequence[DeadLetter]], Outcome], progress: Callable[[int], None]
    ) -> Outcome:
        """`work` on every message that is there now: not on those that come back while it runs."""
        total, seen = Outcome(), set[str]()
        letters, now = self._peek(PEEK)
        fresh = letters
        while fresh:
            seen.update(each.id for each in fresh)
            outcome = work(fresh)
            total.done += outcome.done
            total.failed |= outcome.failed
            progress(len(fresh))
            if len(letters) < PEEK:
                break  # these were all
            letters, _ = self._peek(PEEK)
            fresh = [each for each in letters if each.id not in seen and each.since <= now + _SLACK]
        return total

    @cached_property
    def _id(self) -> str:
        return self._account.queue(self.name)

    @cached_property
    def _ingest_id(self) -> str:
        return self._account.queue(self._account.names.ingest)

    def _peek(self, limit: int) -> tuple[list[DeadLetter], datetime]:
        """Messages, and the time of Cloudflare's clock, to the second."""
        raw = self._account.call(
            "look into the dead-letter queue",
            lambda client: client.queues.messages.with_raw_response.peek(
                self._id, account_id=self._account.id, batch_size=limit
            ),
        )
        answer = raw.parse()
        date = raw.headers.get("date")
        now = parsedate_to_datetime(date) if date else datetime.now(UTC)
        return [read(message) for message in (answer and answer.messages) or ()], now

    def _send(self, letters: Collection[DeadLetter]) -> None:
        messages = [_push(each) for each in letters]
        self._account.call(
            "send to the ingest queue",
            lambda client: client.queues.messages.bulk_push(
                self._ingest_id, account_id=self._account.id, messages=messages
            ),
        )

    def _remove(self, letters: Collection[DeadLetter]) -> list[str]:
        self._account.call(
            "remove from the dead-letter queue",
            lambda client: client.queues.messages.purge(
                self._id, account_id=self._account.id, refs=[{"ref": each.ref} for each in letters]
            ),
        )
        return [each.id for each in letters]


def read(message: "Peeked") -> DeadLetter:
    """A message as the API shows it: JSON comes in base64, text as it is."""
    metadata = message.metadata if isinstance(message.metadata, dict) else {}
    kind = str(metadata.get("CF-Content-Type", "json"))
    since = datetime.fromtimestamp((message.timestamp_ms or 0) / 1000, UTC)
    head = (message.id or "", message.ref or "", since)
    if kind == "text":
        return DeadLetter(*head, message.body, kind)
    if kind != "json":
        return DeadLetter(*head, None, kind, unreadable=f"its body is {kind}, which can't be sent over REST")
    try:
        body = _json(message.body or "")
    except ValueError:
        return DeadLetter(*head, None, kind, unreadable="its body is no JSON")
    if isinstance(body, dict) and body.keys() == _ENVELOPE:
        error = body["error"] if isinstance(body["error"], dict) else None
        return DeadLetter(*head, body["original"], kind, str(body["reason"]), error, body["attempts"])
    return DeadLetter(*head, body, kind)


def _json(text: str) -> Any:
    try:
        return json.loads(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return json.loads(text)


def _push(letter: DeadLetter) -> "Push":
    if letter.content_type == "text":
        return {"body": str(letter.original), "content_type": "text"}
    return {"body": letter.original, "content_type": "json"}


def _bytes(letter: DeadLetter) -> int:
    body = letter.original
    text = body if letter.content_type == "text" else json.dumps(body, separators=(",", ":"))
    return len(text.encode()) + _OVERHEAD_BYTES


def _groups(sized: Sequence[tuple[DeadLetter, int]]) -> Iterator[list[DeadLetter]]:
    """The messages in order, as many together as one call takes."""
    return grouped(sized, QUEUE_SEND_BATCH.value, QUEUE_SEND_BATCH_BYTES.value)
