"""Dead letters, in the queues of a real local Cloudflare, through the official client."""

import base64
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cfrag.main import main
from cfrag.pulumi_env import ROOT
from tests.deployed import Deployed
from tests.local_api.server import LocalServer, wait_for

Output = pytest.CaptureFixture[str]
RAG = {"name": "docs", "embedding": {"model": "@cf/baai/bge-m3"}}
STACK = ("--stack", "local")
GIVE_UP = """export default {
  async queue(batch, env) {
    for (const { body } of batch.messages) {
      await env.DLQ.send({ reason: "still no good", error: {}, attempts: 1, original: body });
    }
  },
};"""


class Queues:
    """The two queues of the stack `local`, by the last part of their names."""

    def __init__(self, server: LocalServer) -> None:
        self.server = server
        self.ids = {name: self._make(f"docs-local-{name}") for name in ("ingest", "ingest-dlq")}

    def _make(self, name: str) -> str:
        made = self.server.api("POST", "/queues", json={"queue_name": name}).json()["result"]
        return str(made["queue_id"])

    def put(self, *bodies: Any, kind: str = "json") -> None:
        """Into the dead-letter queue."""
        for at in range(0, len(bodies), 100):
            messages = [{"body": body, "content_type": kind} for body in bodies[at : at + 100]]
            self.call("ingest-dlq", "messages/batch", {"messages": messages})

    def held(self, queue: str) -> list[Any]:
        """The bodies of up to 100 messages, without a delivery."""
        return [json.loads(base64.b64decode(each["body"])) for each in self.peeked(queue)]

    def peeked(self, queue: str) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.call(queue, "messages/peek", {"batch_size": 100})["messages"]
        return messages

    def call(self, queue: str, path: str, body: Any) -> Any:
        answer = self.server.api("POST", f"/queues/{self.ids[queue]}/{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()["result"]

    def count(self, queue: str) -> int:
        metrics = self.server.api("GET", f"/queues/{self.ids[queue]}/metrics").json()["result"]
        return int(metrics["backlog_count"])

    def clear(self) -> None:
        for queue in self.ids:
            self.call(queue, "purge", {"delete_messages_permanently": True})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queues]:
    home = tmp_path_factory.mktemp("home")
    server = LocalServer(home).start()
    (home / "Pulumi.local.yaml").write_text(json.dumps({"config": {"cf-rag:rag": RAG}}))
    yield Queues(server)
    server.stop()


@pytest.fixture
def queues(made: Queues, monkeypatch: pytest.MonkeyPatch) -> Queues:
    """Empty ones, with the environment of somebody who works on them."""
    made.server.raw("DELETE", "/__local/faults")
    made.clear()
    for name, value in environment(made).items():
        monkeypatch.setenv(name, value)
    return made


def environment(queues: Queues) -> dict[str, str]:
    server = queues.server
    return {
        "CFRAG_HOME": str(server.home),
        "CLOUDFLARE_BASE_URL": f"{server.url}/client/v4",
        "CLOUDFLARE_API_TOKEN": server.info["token"],
        "CLOUDFLARE_ACCOUNT_ID": server.account,
        "COLUMNS": "120",
    }


def document(name: str) -> dict[str, Any]:
    return {"doc": {"id": name, "body": f"text of {name}"}}


def given_up(name: str, reason: str = "too many tags") -> dict[str, Any]:
    """As the Worker sends it."""
    return {"reason": reason, "error": {"status": 422}, "attempts": 2, "original": document(name)}


def as_json(capsys: Output, *arguments: str) -> Any:
    assert main(["dlq", *arguments, *STACK, "--json"]) in (0, 1)
    return json.loads(capsys.readouterr().out)


def test_both_kinds_of_messages_are_listed_with_reason_and_without_text(
    queues: Queues, capsys: Output
) -> None:
    queues.put(given_up("a"), document("b"), {"kind": "reindex", "ids": ["c", "d"]})
    assert main(["dlq", "list", *STACK]) == 0
    shown = capsys.readouterr().out
    for part in ("document a", "too many tags", "document b", "its retries ran out", "reindex c, d"):
        assert part in shown
    assert "text of" not in shown


def test_looking_uses_up_no_delivery(queues: Queues, capsys: Output) -> None:
    queues.put(given_up("a"))
    for _ in range(5):
        (message,) = as_json(capsys, "list")["messages"]
        assert main(["dlq", "show", message["id"], *STACK]) == 0
        assert json.loads(capsys.readouterr().out)["original"] == document("a")
    assert [each["attempts"] for each in queues.peeked("ingest-dlq")] == [0]


def test_a_list_says_how_many_it_does_not_show(queues: Queues, capsys: Output) -> None:
    queues.put(*(document(str(number)) for number in range(30)))
    assert main(["dlq", "list", *STACK, "-n", "4"]) == 0
    assert "the oldest 4 of about 30" in capsys.readouterr().err
    queues.clear()
    assert main(["dlq", "list", *STACK]) == 0
    assert "docs-local-ingest-dlq is empty" in capsys.readouterr().out


def test_what_is_replayed_is_the_original_and_leaves_the_queue(queues: Queues, capsys: Output) -> None:
    queues.put(given_up("a"), document("b"), given_up("stays"))
    first, second, _ = [each["id"] for each in as_json(capsys, "list")["messages"]]
    done = as_json(capsys, "replay", first, second, "--yes")
    assert done == {"replayed": [first, second], "failed": {}}
    assert queues.held("ingest") == [document("a"), document("b")]
    assert queues.held("ingest-dlq") == [given_up("stays")]


def test_text_is_replayed_as_text(queues: Queues, capsys: Output) -> None:
    queues.put("no json", kind="text")
    assert len(as_json(capsys, "replay", "--all", "--yes")["replayed"]) == 1
    (message,) = queues.peeked("ingest")
    assert (message["body"], message["metadata"]["CF-Content-Type"]) == ("no json", "text")


def test_what_cannot_be_sent_over_rest_stays_and_is_named(queues: Queues, capsys: Output) -> None:
    queues.put(base64.b64encode(b"\x00\x01").decode(), kind="bytes")
    queues.put(document("a"))
    assert main(["dlq", "replay", "--all", "--yes", *STACK]) == 1
    streams = capsys.readouterr()
    assert "1 message replayed" in streams.out
    assert "stays: its body is bytes" in streams.err
    assert queues.held("ingest") == [document("a")]
    assert queues.count("ingest-dlq") == 1


def test_more_than_can_be_seen_at_once_are_replayed_by_all(queues: Queues, capsys: Output) -> None:
    queues.put(*(given_up(str(number)) for number in range(230)))
    assert len(as_json(capsys, "replay", "--all", "--yes")["replayed"]) == 230
    assert (queues.count("ingest"), queues.count("ingest-dlq")) == (230, 0)


def test_large_messages_go_in_calls_that_the_queue_takes(queues: Queues, capsys: Output) -> None:
    queues.put(*({"doc": {"id": str(number), "body": "x" * 90_000}} for number in range(2)))
    queues.put(*({"doc": {"id": str(number), "body": "é" * 45_000}} for number in range(2, 4)))
    assert len(as_json(capsys, "replay", "--all", "--yes")["replayed"]) == 4
    assert queues.count("ingest") == 4


def test_dropped_messages_are_gone_and_sent_nowhere(queues: Queues, capsys: Output) -> None:
    queues.put(document("a"), document("b"))
    first, second = [each["id"] for each in as_json(capsys, "list")["messages"]]
    assert as_json(capsys, "drop", first, "--yes") == {"dropped": [first], "failed": {}}
    assert as_json(capsys, "drop", "--all", "--yes")["dropped"] == [second]
    assert (queues.count("ingest"), queues.count("ingest-dlq")) == (0, 0)


def test_nothing_is_removed_when_the_ingest_queue_takes_nothing(queues: Queues, capsys: Output) -> None:
    queues.put(given_up("a"))
    fault = {"target": "queue", "op": "send", "action": "error", "status": 403, "message": "no"}
    queues.server.control("POST", "/faults", fault)
    assert main(["dlq", "replay", "--all", "--yes", *STACK]) == 4
    assert "cannot send to the ingest queue" in capsys.readouterr().err
    assert (queues.count("ingest"), queues.count("ingest-dlq")) == (0, 1)


def test_killed_between_sending_and_removing_nothing_is_lost_and_it_can_be_run_again(
    queues: Queues, capsys: Output
) -> None:
    queues.put(given_up("a"), given_up("b"))
    fault = {"target": "queue", "op": "purge", "action": "delay", "delayMs": 20_000}
    queues.server.control("POST", "/faults", fault)
    command = [sys.executable, "-m", "cfrag", "dlq", "replay", "--all", "--yes", *STACK]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: queues.count("ingest") == 2, lambda: "nothing was sent")
    running.send_signal(signal.SIGKILL)
    running.wait()
    queues.server.raw("DELETE", "/__local/faults")
    assert queues.count("ingest-dlq") == 2
    assert len(as_json(capsys, "replay", "--all", "--yes")["replayed"]) == 2
    assert queues.held("ingest") == [document("a"), document("b")] * 2
    assert queues.count("ingest-dlq") == 0


def test_messages_that_come_back_at_once_are_not_replayed_again_and_again(tmp_path: Path) -> None:
    server = LocalServer(tmp_path).start()
    try:
        (tmp_path / "Pulumi.local.yaml").write_text(json.dumps({"config": {"cf-rag:rag": RAG}}))
        queues = Queues(server)
        dlq = {"type": "queue", "name": "DLQ", "queue_name": "docs-local-ingest-dlq"}
        server.run("gives-up", GIVE_UP, [dlq])
        at_once = {"batch_size": 10, "max_wait_time_ms": 0}
        consumer = {"type": "worker", "script_name": "gives-up", "settings": at_once}
        queues.call("ingest", "consumers", consumer)
        queues.put(given_up("a"), given_up("b"))
        before = {each["id"] for each in queues.peeked("ingest-dlq")}
        command = [sys.executable, "-m", "cfrag", "dlq", "replay", "--all", "--yes", "--json", *STACK]
        done = subprocess.run(
            command, cwd=ROOT, env=environment(queues), capture_output=True, text=True, timeout=60, check=True
        )
        assert set(json.loads(done.stdout)["replayed"]) == before
        wait_for(lambda: queues.count("ingest-dlq") == 2, lambda: "they did not come back")
        assert {each["original"]["doc"]["id"] for each in queues.held("ingest-dlq")} == {"a", "b"}
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay"], "say which messages to replay: ids, or --all"),
        (["drop", "x", "--all"], "say which messages to drop: ids, or --all"),
        (["drop", "--all"], "add --yes"),
        (["show", "nope"], "docs-local-ingest-dlq has no message nope"),
        (["replay", "nope", "--yes"], "docs-local-ingest-dlq has no message nope"),
    ],
)
def test_what_is_not_clear_is_refused_before_anything_happens(
    queues: Queues, capsys: Output, arguments: list[str], said: str
) -> None:
    queues.put(document("a"))
    assert main(["dlq", *arguments, *STACK]) == 2
    assert said in capsys.readouterr().err
    assert queues.count("ingest-dlq") == 1


def test_another_stack_is_not_on_this_account(
    queues: Queues, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CFRAG_HOME")
    assert main(["dlq", "list", "--stack", "dev"]) == 2
    assert "pulumi up -s dev" in capsys.readouterr().err


def test_a_token_that_is_not_valid_is_refused_with_what_it_needs(
    queues: Queues, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDFLARE_API_TOKEN", "x" * 40)
    assert main(["dlq", "list", *STACK]) == 4
    assert "Queues" in capsys.readouterr().err


def test_the_deployed_stack_keeps_dead_letters_for_14_days_and_lets_tools_pull(deployed: Deployed) -> None:
    api, dlq = deployed.cloudflare.api, deployed.stack.outputs()["dlqId"]
    queue = httpx.get(
        f"{api.base_url}/accounts/{api.account_id}/queues/{dlq}",
        headers={"authorization": f"Bearer {api.token}"},
    ).json()["result"]
    assert queue["settings"]["message_retention_period"] == 14 * 86_400
    assert [each["type"] for each in queue["consumers"]] == ["http_pull"]


def test_a_document_is_indexed_by_its_replay_and_a_second_one_changes_nothing(deployed: Deployed) -> None:
    dlq = deployed.stack.outputs()["dlqId"]
    api, body = deployed.cloudflare.api, document("replayed-by-a-test")

    def replay() -> None:
        httpx.post(
            f"{api.base_url}/accounts/{api.account_id}/queues/{dlq}/messages",
            json={"body": body, "content_type": "json"},
            headers={"authorization": f"Bearer {api.token}"},
        )
        listed = json.loads(deployed.cfrag("dlq", "list", *STACK, "-n", "100", "--json").stdout)
        (message,) = [each["id"] for each in listed["messages"] if each["original"] == body]
        done = deployed.cfrag("dlq", "replay", message, *STACK, "--yes")
        assert done.returncode == 0, done.stderr

    def stored() -> Any:
        answer = httpx.get(
            f"{deployed.url}/v1/docs/replayed-by-a-test", headers={"authorization": f"Bearer {deployed.key}"}
        )
        return answer.json() if answer.status_code == 200 else {}

    replay()
    wait_for(lambda: stored().get("state") == "indexed", lambda: "it was not indexed", 60)
    first = stored()
    deployed.cloudflare.call("POST", "/__local/calls/reset")
    replay()
    time.sleep(8)  # the consumer waits 5 s for a batch to fill
    assert deployed.cloudflare.call("GET", "/__local/calls")["ai"] == {}
    assert stored() == first
