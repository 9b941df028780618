"""The control API: delivery of queue batches, and who may call it."""

import time
from typing import Any

import httpx
import pytest

from tests.workerd.support import Cell, Json


def message(id: str, body: Any, attempts: int = 1, content_type: str = "json") -> Json:
    sent = int(time.time() * 1000)
    return {"id": id, "timestamp": sent, "attempts": attempts, "body": body, "contentType": content_type}


def deliver(cell: Cell, *messages: Json, worker: str = "probe") -> Any:
    answer = cell.control("POST", "/queue", {"worker": worker, "queue": "ingest", "messages": list(messages)})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_each_message_is_acked_or_retried_for_itself(cell: Cell) -> None:
    outcome = deliver(
        cell,
        message("m1", {"order": "ack"}),
        message("m2", {"order": "retry"}),
        message("m3", {"order": "nothing"}, attempts=4),
    )
    assert outcome == {
        "outcome": "ok",
        "ackAll": False,
        "retryAll": {"retry": False},
        "explicitAcks": ["m1"],
        "explicitRetries": [{"id": "m2", "delaySeconds": 7}],
    }
    assert cell.logged("received ingest m3 JsDict 4 nothing")["worker"] == "probe"


def test_retry_of_the_batch_has_its_delay(cell: Cell) -> None:
    outcome = deliver(cell, message("m1", {"order": "retry-all"}))
    assert outcome["outcome"] == "ok"
    assert outcome["retryAll"] == {"retry": True, "delaySeconds": 9}


def test_consumer_that_raises_has_the_outcome_exception(cell: Cell) -> None:
    outcome = deliver(cell, message("m1", {"order": "ack"}), message("m2", {"order": "raise"}))
    assert outcome["outcome"] == "exception"
    assert outcome["explicitAcks"] == ["m1"]
    assert "entry.py" in cell.logged("RuntimeError: the consumer fails")["message"]


def test_bodies_have_the_type_of_their_content(cell: Cell) -> None:
    deliver(cell, message("t1", "words", content_type="text"), message("b1", "Af8=", content_type="bytes"))
    assert cell.logged("received ingest t1 str 1 None")
    assert cell.logged("received ingest b1 memoryview 1 None")


def test_worker_without_a_queue_handler_has_an_outcome_too(cell: Cell) -> None:
    assert deliver(cell, message("m1", {}), worker="caller")["outcome"] != "ok"


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}])
def test_token_is_asked_for(cell: Cell, headers: dict[str, str]) -> None:
    assert httpx.get(cell.ready["control"] + "/health", headers=headers).status_code == 401
    assert cell.control("GET", "/health").json() == {"ok": True}


def test_unknown_worker_and_unknown_path_are_404s(cell: Cell) -> None:
    assert cell.control("POST", "/warm", {"worker": "nobody"}).status_code == 404
    assert cell.control("POST", "/nothing", {}).status_code == 404
