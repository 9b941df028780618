"""The smoke test of a service: on the real one, and on ones that do something wrong."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from cfrag.main import main
from cfrag.pulumi_env import ROOT
from cfrag.smoke import PROBE
from tests.deployed import Deployed
from tests.local_api.server import wait_for

Output = pytest.CaptureFixture[str]
CHECKS = (
    "health",
    "no token is refused",
    "a wrong token is refused",
    "ingest",
    "search finds it",
    "get shows it",
    "delete",
    "it is gone",
    "mcp",
)


def probes(deployed: Deployed) -> list[str]:
    """Ids of probes that the service still holds: they sort next to each other."""
    headers = {"authorization": f"Bearer {deployed.key}"}
    found: list[str] = []
    cursor: str | None = None
    while True:
        params = {"limit": 100} | ({"cursor": cursor} if cursor else {})
        page = httpx.get(f"{deployed.url}/v1/docs", params=params, headers=headers).json()
        found += [each["id"] for each in page["documents"] if each["id"].startswith(PROBE)]
        if (cursor := page["cursor"]) is None:
            return found


def key(deployed: Deployed, *scopes: str) -> str:
    options = [part for scope in scopes for part in ("--scope", scope)]
    return deployed.cfrag("keys", "mint", "--name", "smoke", *options).stdout.strip()


def results(stdout: str) -> dict[str, str]:
    return {each["check"]: each["status"] for each in json.loads(stdout)["checks"]}


def test_a_deployed_service_passes_every_check_and_keeps_no_probe(deployed: Deployed) -> None:
    done = deployed.cfrag("smoke", "--json", CFRAG_KEY=key(deployed, "read", "write"))
    assert done.returncode == 0, done.stdout
    assert results(done.stdout) == dict.fromkeys(CHECKS, "ok")
    assert probes(deployed) == []


def test_the_internal_secret_is_as_good_but_for_mcp(deployed: Deployed) -> None:
    done = deployed.cfrag("smoke", "--key", "-", stdin=deployed.key + "\n", CFRAG_KEY="")
    assert done.returncode == 0, done.stderr
    assert "takes API keys only" in done.stdout
    for check in CHECKS:
        assert check in done.stdout


def test_a_key_that_may_not_write_fails_and_the_missing_scope_is_named(deployed: Deployed) -> None:
    done = deployed.cfrag("smoke", "--json", CFRAG_KEY=key(deployed, "read"))
    assert done.returncode == 1
    found = results(done.stdout)
    assert (found["ingest"], found["search finds it"], found["delete"]) == ("failed", "skipped", "skipped")
    assert '\\"write\\"' in done.stdout
    assert "failed" in done.stderr


def test_a_wait_is_bounded_and_its_probe_is_removed_all_the_same(deployed: Deployed) -> None:
    deployed.cloudflare.call("PUT", "/__local/settings", {"vectorizeDelaySeconds": 20})
    try:
        done = deployed.cfrag("smoke", "--wait", "2", "--json")
    finally:
        deployed.cloudflare.call("PUT", "/__local/settings", {"vectorizeDelaySeconds": 1})
    assert done.returncode == 1
    assert results(done.stdout)["search finds it"] == "failed"
    assert "not within 2 s" in done.stdout
    assert probes(deployed) == []


def test_a_probe_that_an_earlier_run_left_behind_is_removed(deployed: Deployed) -> None:
    left = f"{PROBE}1700000000-0123456789ab"
    document = {"id": left, "body": f"Written by cfrag smoke. Probe {left}.", "active": False}
    headers = {"authorization": f"Bearer {deployed.key}"}
    httpx.post(f"{deployed.url}/v1/ingest", json=document, headers=headers).raise_for_status()
    assert probes(deployed) == [left]
    assert deployed.cfrag("smoke").returncode == 0
    assert probes(deployed) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_in_the_middle_it_removes_its_probe(deployed: Deployed, number: signal.Signals) -> None:
    deployed.cloudflare.call("PUT", "/__local/settings", {"vectorizeDelaySeconds": 20})
    try:
        running = subprocess.Popen(
            [sys.executable, "-m", "cfrag", "smoke"],
            cwd=ROOT,
            env=deployed.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        wait_for(lambda: probes(deployed) != [], lambda: "no probe was written", 60)
        running.send_signal(number)
        _, said = running.communicate(timeout=60)
    finally:
        deployed.cloudflare.call("PUT", "/__local/settings", {"vectorizeDelaySeconds": 1})
    assert running.returncode != 0
    assert b"Traceback" not in said
    assert probes(deployed) == []


def test_a_key_in_the_command_line_is_refused_and_not_repeated(capsys: Output) -> None:
    assert main(["smoke", "--url", "http://127.0.0.1:1", "--key", "pi_secret"]) == 2
    said = capsys.readouterr().err
    assert "revoke it" in said
    assert "pi_secret" not in said


def test_where_nothing_answers_the_first_check_fails_and_the_rest_is_skipped(
    free_port: int, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CFRAG_KEY", "k")
    assert main(["smoke", "--url", f"http://127.0.0.1:{free_port}", "--json"]) == 1
    found = results(capsys.readouterr().out)
    assert found == {**dict.fromkeys(CHECKS, "skipped"), "health": "failed"}


class WrongService:
    """A service as the smoke test sees it, which does one thing wrong."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.document: dict[str, Any] | None = None
        service = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def _answer(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                known = self.headers.get("authorization") == "Bearer right"
                status, content = service.answer(self.command, self.path, body, known=known)
                data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
                self.send_response(status)
                if status == 401 and service.fault != "no challenge":
                    self.send_header("www-authenticate", "Bearer")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = _answer

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, method: str, path: str, body: Any, *, known: bool) -> tuple[int, Any]:
        if path == "/health":
            return 200, "<html>" if self.fault == "another service" else {"status": "ok"}
        if not known and self.fault != "open":
            return 401, {"title": "No"}
        if path.startswith("/v1/docs/"):
            return self._document(method)
        if path == "/v1/ingest":
            self.document = {**body, "state": "indexed"}
            return 200, {"status": "skipped" if self.fault == "skips" else "indexed"}
        if path == "/v1/search":
            visible = self.document is not None and self.fault != "never found"
            return 200, {"hits": [{"id": self.document["id"]}] if visible and self.document else []}
        return 200, self._rpc(body)

    def _document(self, method: str) -> tuple[int, Any]:
        found, gone = self.document, (404, {"title": "Not found"})
        if method == "DELETE":
            self.document = found if self.fault == "undeletable" else None
            return 200, {"status": "deleted" if found else "missing"}
        if found is None:
            return gone
        return 200, {**found, "body": "another text"} if self.fault == "another text" else found

    def _rpc(self, body: Any) -> Any:
        if body is None:
            return {"state": "ok"}
        tools = [] if self.fault == "no tools" else [{"name": "search_docs"}]
        return {"result": {"protocolVersion": "2025-11-25", "tools": tools}}


@pytest.fixture
def wrong(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[WrongService]:
    monkeypatch.setenv("CFRAG_KEY", "right")
    service = WrongService(request.param)
    thread = threading.Thread(target=service.server.serve_forever, args=(0.05,))
    thread.start()
    yield service
    service.server.shutdown()
    thread.join()
    service.server.server_close()


@pytest.mark.parametrize(
    ("wrong", "failing"),
    [
        ("nothing", set()),
        ("another service", {"health"}),
        ("open", {"no token is refused", "a wrong token is refused"}),
        ("no challenge", {"no token is refused", "a wrong token is refused"}),
        ("skips", {"ingest"}),
        ("never found", {"search finds it"}),
        ("another text", {"get shows it"}),
        ("undeletable", {"it is gone"}),
        ("no tools", {"mcp"}),
    ],
    indirect=["wrong"],
)
def test_each_thing_that_is_wrong_fails_its_check_and_the_command(
    wrong: WrongService, failing: set[str], capsys: Output
) -> None:
    assert main(["smoke", "--url", wrong.url, "--wait", "1", "--json"]) == (1 if failing else 0)
    found = results(capsys.readouterr().out)
    assert {check for check, status in found.items() if status == "failed"} == failing
    assert (wrong.document is None) == (wrong.fault != "undeletable")
