from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from cfrag.client import ATTEMPTS, Client, retry_after
from cfrag.errors import Refused, Unreachable
from tests.cfrag.conftest import Answer, ScriptedService

PROBLEM = "application/problem+json"


class Sleeps(list[float]):
    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def sleeps() -> Sleeps:
    return Sleeps()


def client(service: ScriptedService, sleeps: Sleeps) -> Client:
    return Client(service.url, "secret-key", sleep=sleeps)


def test_the_key_goes_into_the_authorization_header(service: ScriptedService, sleeps: Sleeps) -> None:
    service.answer(Answer(body={"hits": []}))
    with client(service, sleeps) as running:
        assert running.search({"query": "x"}) == []
    assert service.calls[0].headers["authorization"] == "Bearer secret-key"


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_asked_again_after_the_time_it_names(
    service: ScriptedService, sleeps: Sleeps, status: int
) -> None:
    busy = Answer(status, {"title": "busy"}, {"retry-after": "7"}, PROBLEM)
    service.answer(busy, busy, Answer(body={"hits": []}))
    with client(service, sleeps) as running:
        assert running.search({"query": "x"}) == []
    assert sleeps == [7.0, 7.0]


def test_without_a_time_the_wait_grows(service: ScriptedService, sleeps: Sleeps) -> None:
    service.answer(Answer(503, "busy"), Answer(503, "busy"), Answer(body={"hits": []}))
    with client(service, sleeps) as running:
        running.search({"query": "x"})
    assert sleeps == [0.5, 1.0]


def test_it_gives_up_in_the_end(service: ScriptedService, sleeps: Sleeps) -> None:
    service.answer(Answer(429, {"title": "Too many requests"}, {"retry-after": "1"}, PROBLEM))
    with client(service, sleeps) as running, pytest.raises(Refused, match="Too many requests"):
        running.search({"query": "x"})
    assert len(service.calls) == ATTEMPTS


def test_a_503_that_waiting_does_not_end_is_not_repeated(service: ScriptedService, sleeps: Sleeps) -> None:
    service.answer(Answer(503, {"title": "Embedding dimensions don't match the index"}, {}, PROBLEM))
    with client(service, sleeps) as running, pytest.raises(Refused, match="dimensions"):
        running.stats()
    assert len(service.calls) == 1


def test_a_refusal_is_one_line_with_field_and_request(service: ScriptedService, sleeps: Sleeps) -> None:
    problem = {
        "title": "A value is not acceptable",
        "detail": "topK is 51",
        "field": "topK",
        "requestId": "r1",
    }
    service.answer(Answer(422, problem, {}, PROBLEM))
    with client(service, sleeps) as running, pytest.raises(Refused) as refused:
        running.search({"query": "x"})
    assert str(refused.value) == "A value is not acceptable: topK is 51 (field topK, request r1)"
    assert refused.value.status == 422


def test_an_error_without_details_still_names_status_and_address(
    service: ScriptedService, sleeps: Sleeps
) -> None:
    service.answer(Answer(500, b"oops", {}, "text/plain"))
    with client(service, sleeps) as running, pytest.raises(Refused, match=r"HTTP 500 .* from http://127"):
        running.stats()


def test_no_service_at_the_address_is_unreachable_at_once(sleeps: Sleeps, free_port: int) -> None:
    url = f"http://127.0.0.1:{free_port}"
    with (
        Client(url, "key", sleep=sleeps) as running,
        pytest.raises(Unreachable, match=f"no answer from {url}.*is CFRAG_URL right"),
    ):
        running.stats()
    assert sleeps == []


def test_a_page_that_is_no_json_is_no_service(service: ScriptedService, sleeps: Sleeps) -> None:
    service.answer(Answer(200, b"<html>", {}, "text/html"))
    with client(service, sleeps) as running, pytest.raises(Unreachable, match="is not a cfrag service"):
        running.stats()


def test_retry_after_may_be_a_date() -> None:
    now = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    assert retry_after(format_datetime(now + timedelta(seconds=90), usegmt=True), now) == 90
    assert retry_after(format_datetime(now - timedelta(seconds=90), usegmt=True), now) == 0
    assert retry_after("soon", now) is None
