"""A service that answers as a test has written down, on a real socket."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.cfrag import backups
from tests.cfrag.backups import Services


@dataclass
class Answer:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


@dataclass
class Call:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class ScriptedService:
    """Gives its answers one after the other, the last one for good, and keeps the calls."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.calls: list[Call] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def _answer(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                service.calls.append(Call(self.command, self.path, headers, body))
                answer = service.answers.pop(0) if len(service.answers) > 1 else service.answers[0]
                given = answer.body(body) if callable(answer.body) else answer.body
                content = given if isinstance(given, bytes) else json.dumps(given).encode()
                self.send_response(answer.status)
                for name, value in {"content-type": answer.content_type, **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = _answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> "ScriptedService":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, *answers: Answer) -> None:
        self.answers[:] = answers


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    with ScriptedService() as running:
        yield running


@pytest.fixture
def as_user(service: ScriptedService, monkeypatch: pytest.MonkeyPatch) -> ScriptedService:
    """The service, with CFRAG_URL and CFRAG_KEY set for it."""
    monkeypatch.setenv("CFRAG_URL", service.url)
    monkeypatch.setenv("CFRAG_KEY", "secret-key")
    return service


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Services to back up and to restore into."""
    with backups.running(tmp_path_factory.mktemp("backups")) as deployed:
        yield deployed
