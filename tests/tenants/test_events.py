"""What is made of the engine's events."""

from typing import Any

from pulumi.automation.events import EngineEvent

from cfrag.tenants.events import Listener

URN = "urn:pulumi:acme::cf-rag::cfrag:index:RagStack$cloudflare:index/queue:Queue::ingest"


def heard(*events: dict[str, Any]) -> tuple[Listener, list[str]]:
    told: list[str] = []
    listener = Listener(told.append)
    for number, event in enumerate(events):
        listener(EngineEvent.from_json({"sequence": number, "timestamp": 0, **event}))
    return listener, told


def error(message: str, urn: str = "") -> dict[str, Any]:
    return {
        "diagnosticEvent": {"message": message, "severity": "error", "urn": urn, "color": "raw", "prefix": ""}
    }


def step(kind: str, operation: str) -> dict[str, Any]:
    metadata = {"op": operation, "urn": URN, "type": "cloudflare:index/queue:Queue", "provider": ""}
    return {kind: {"metadata": metadata}}


def test_errors_are_lines_that_name_the_resource_and_come_once() -> None:
    said = error("<{%fg 1%}>Queue name is taken\n<{%reset%}>", URN)
    listener, _ = heard(said, said, error("update failed"))
    assert listener.errors == ["ingest: Queue name is taken"]


def test_a_program_that_breaks_is_no_traceback() -> None:
    message = "boom Traceback (most recent call last):\n  File x\nValueError: boom"
    listener, _ = heard(
        error(f"python inline source runtime error: {message}"),
        error(f"an unhandled error occurred: python inline source runtime error: {message}"),
    )
    assert listener.errors == ["boom"]


def test_progress_names_what_is_worked_on() -> None:
    _, told = heard(
        step("resourcePreEvent", "create"),
        step("resOutputsEvent", "create"),
        step("resourcePreEvent", "same"),
    )
    assert told == ["0 done, create ingest"]
    _, told = heard(step("resOutputsEvent", "create"), step("resourcePreEvent", "delete"))
    assert told == ["1 done, delete ingest"]


def test_the_summary_counts_by_operation() -> None:
    summary = {"maybeCorrupt": False, "durationSeconds": 1, "resourceChanges": {"same": 3, "create": 2}}
    listener, _ = heard({"summaryEvent": {**summary, "PolicyPacks": {}}})
    assert listener.changes == {"same": 3, "create": 2}
