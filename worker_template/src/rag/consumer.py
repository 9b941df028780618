"""The queue's consumer: a batch of messages in few calls, and a verdict for each message alone."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from pydantic import ValidationError

from rag import core, logs, messages, model_state, repairs, rewrite, sweep
from rag.bindings import Bindings
from rag.errors import Problem
from rag.invalid import problem_from
from rag.schemas import Document
from rag.settings import QUEUE_MESSAGE_BYTES

_FIRST_DELAY, _LONGEST_DELAY = 10, 900
# Writes become visible within some minutes.
_VERIFY_DELAY = 60
# After so many tries the sweep takes over: what is still not as it should be is marked in D1.
_WORK_ATTEMPTS = 4


class Message(Protocol):
    """A message as the runtime hands it over."""

    @property
    def body(self) -> Any: ...
    @property
    def attempts(self) -> int: ...
    def ack(self) -> Any: ...
    def retry(self, *, delaySeconds: int) -> Any: ...


class Batch(Protocol):
    @property
    def messages(self) -> Sequence[Message]: ...


async def consume(b: Bindings, batch: Batch) -> None:
    """Work on a batch; every message is acknowledged or given back, whatever happens to its neighbours.

    What can never succeed goes to the dead-letter queue at once, with its reason; the rest is tried again
    with growing delay.
    """
    kinds: dict[str, list[Message]] = {"doc": [], "rewrite": [], "verify": [], "sweep": [], "": []}
    for message in batch.messages:
        kinds[_kind(message.body)].append(message)
    for message in kinds[""]:
        problem = Problem("invalid-value", "a message holds a doc, or a kind with its ids or cursor")
        await _bury(b, message, problem)
    work: dict[str, Callable[[Bindings, list[Message]], Coroutine[Any, Any, None]]] = {
        "doc": _ingest,
        "rewrite": _rewrite,
        "verify": _verify,
        "sweep": _sweep,
    }
    for kind, handle in work.items():
        if kinds[kind]:
            await _guarded(b, handle, kinds[kind])


def _kind(body: Any) -> str:
    if not isinstance(body, dict):
        return ""
    if "doc" in body:
        return "doc"
    kind, ids = body.get("kind"), body.get("ids")
    if kind == "sweep" and isinstance(body.get("cursor", ""), str):
        return "sweep"
    if isinstance(ids, list) and all(isinstance(each, str) for each in ids):
        return {"reindex": "rewrite", "backfill": "rewrite", "verify": "verify"}.get(str(kind), "")
    return ""


async def _guarded(
    b: Bindings, handle: Callable[[Bindings, list[Message]], Coroutine[Any, Any, None]], group: list[Message]
) -> None:
    """What fails as a whole fails for each message of the group; handlers judge messages last."""
    try:
        await handle(b, group)
    except Problem as problem:
        for message in group:
            await _judge(b, message, problem)
    except Exception as error:  # noqa: BLE001 - one bad batch must not stop the queue
        logs.log_exception("unexpected error in the queue", error, messages=len(group))
        for message in group:
            _again(message)


async def _ingest(b: Bindings, group: list[Message]) -> None:
    valid: list[tuple[Message, Document]] = []
    for message in group:
        try:
            valid.append((message, Document.model_validate(message.body["doc"])))
        except ValidationError as error:
            await _bury(b, message, problem_from(error.errors(include_url=False)))
    if not valid:
        return
    try:
        results = await core.ingest_docs(b, [document for _, document in valid], source="queue")
    except Problem as problem:
        results = [problem] * len(valid)
    for (message, _), result in zip(valid, results, strict=True):
        await _judge(b, message, result if isinstance(result, Problem) else None)


async def _rewrite(b: Bindings, group: list[Message]) -> None:
    state = await model_state.ensure(b)
    ids = list(dict.fromkeys(doc_id for message in group for doc_id in message.body["ids"]))
    outcome = await rewrite.rewrite(b, state, ids) if state.moves else rewrite.Outcome()
    for doc_id, problem in outcome.failed.items():
        await _send_dead(b, {"kind": "reindex", "ids": [doc_id]}, problem, 1)
    if outcome.unseen:
        # What can't be seen after so long is not there: find out what is.
        await repairs.verify(b, state, sorted(outcome.unseen))
    for message in group:
        _finish(message, outcome.later - outcome.unseen, _FIRST_DELAY)


async def _verify(b: Bindings, group: list[Message]) -> None:
    state = await model_state.ensure(b)
    later = await repairs.verify(b, state, [doc_id for message in group for doc_id in message.body["ids"]])
    for message in group:
        _finish(message, later, _VERIFY_DELAY)


async def _sweep(b: Bindings, group: list[Message]) -> None:
    for cursor in dict.fromkeys(message.body.get("cursor", "") for message in group):
        await sweep.step(b, cursor)
    for message in group:
        message.ack()


def _finish(message: Message, unresolved: set[str], delay: int) -> None:
    if message.attempts < _WORK_ATTEMPTS and unresolved.intersection(message.body["ids"]):
        _again(message, delay)
    else:
        message.ack()


async def _judge(b: Bindings, message: Message, problem: Problem | None) -> None:
    if problem is None:
        message.ack()
    elif problem.transient:
        _again(message)
    else:
        await _bury(b, message, problem)


def _again(message: Message, first: int = _FIRST_DELAY) -> None:
    message.retry(delaySeconds=min(first * 2 ** (max(message.attempts, 1) - 1), _LONGEST_DELAY))


async def _bury(b: Bindings, message: Message, problem: Problem) -> None:
    """To the dead-letter queue with the reason; if that can't be done, retries take it there without one."""
    if await _send_dead(b, message.body, problem, message.attempts):
        message.ack()
    else:
        _again(message)


async def _send_dead(b: Bindings, original: Any, problem: Problem, attempts: int) -> bool:
    logs.log(
        "error",
        "message given up",
        what=messages.label(original),
        problem=problem.type,
        detail=problem.detail,
    )
    body = {"reason": problem.detail, "error": problem.to_dict(), "attempts": attempts, "original": original}
    if b.dlq is None or messages.message_bytes(body) > QUEUE_MESSAGE_BYTES:
        return False
    try:
        await messages.send(b.dlq, [{"body": body}])
    except Exception as error:  # noqa: BLE001 - one bad batch must not stop the queue
        logs.log_exception("the dead-letter queue took no message", error)
        return False
    return True
