"""Services to back up and to restore into, each a Worker in workerd, and a way to stop between two calls."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from cfrag.main import main
from cfrag.pulumi_env import ROOT
from infra.config import RagConfig
from tests.worker_http.deployed import Deployment, local_cloudflare
from tests.worker_http.engines import SECRET

Json = dict[str, Any]
CONFIG: Json = {
    "name": "docs",
    "embedding": {"model": "@cf/baai/bge-small-en-v1.5"},
    "metadata": {
        "chapter": {"type": "string", "enum": ["types", "syntax"]},
        "words": {"type": "number"},
        "draft": {"type": "boolean"},
        "note": {"type": "string", "filterable": False},
    },
    "mcp": {"enabled": False},
    "dashboard": False,
}
# Another model, and fields that the documents of the first don't fit.
OTHER: Json = {
    **CONFIG,
    "name": "other",
    "embedding": {"model": "@cf/baai/bge-base-en-v1.5"},
    "metadata": {
        "chapter": {"type": "string"},
        "words": {"type": "string"},
        "note": {"type": "string", "filterable": False},
    },
}


class Services(NamedTuple):
    """On one local Cloudflare: `source`, `copy` of the same config, and one of another config."""

    source: Deployment
    copy: Deployment
    other: Deployment


@contextmanager
def running(home: Path) -> Iterator[Services]:
    server = local_cloudflare(home)
    configs = {"source": CONFIG, "copy": CONFIG, "other": OTHER}
    try:
        yield Services(
            *(Deployment(server, RagConfig.from_pulumi(each), name) for name, each in configs.items())
        )
    finally:
        server.stop()


def document(number: int, **changes: Any) -> Json:
    """One of many, each with something of everything."""
    return {
        "id": f"n/{number:03} é😀",
        "title": f"Number {number}" if number % 3 else None,
        "body": f'Passage {number} speaks of the number {number}.\n\t"Quoted" and \\ \u2028 \x7f '
        + "ä" * number,
        "tags": ["even", "a tag"] if number % 2 == 0 else [],
        "metadata": {
            "chapter": "types" if number % 5 else "syntax",
            "words": number if number % 2 else number + 0.1,
            "draft": number % 4 == 0,
            "note": "long " * 30,
        },
        "active": number % 7 != 0,
    } | changes


def ingest(service: Deployment, *documents: Json) -> None:
    with service.client() as client:
        for at in range(0, len(documents), 100):
            answer = client.post("/v1/ingest/batch", json={"documents": documents[at : at + 100]})
            assert {each["status"] for each in answer.json()["results"]} <= {"indexed", "skipped"}, (
                answer.text
            )


def delete(service: Deployment, *ids: str) -> None:
    with service.client() as client:
        client.post("/v1/docs/delete", json={"ids": ids}).raise_for_status()


def held(service: Deployment) -> dict[str, Json]:
    """What the service has, by id, as a line of a backup has it."""
    kept = ("id", "title", "body", "tags", "metadata", "active", "contentHash")
    found: dict[str, Json] = {}
    with service.client() as client:
        cursor: str | None = ""
        while cursor is not None:
            asked = {"content": "true"} | ({"cursor": cursor} if cursor else {})
            page = client.get("/v1/docs", params=asked).json()
            found |= {each["id"]: {key: each[key] for key in kept} for each in page["documents"]}
            cursor = page["cursor"]
    return found


def vectors(service: Deployment) -> dict[str, list[float]]:
    """What Vectorize holds, without the Worker."""
    ids = [row["id"] for row in service.rows("SELECT id FROM documents WHERE deleted_at IS NULL")]
    pages = [service.vectors(*ids[at : at + 20]) for at in range(0, len(ids), 20)]
    return {each["id"]: each["values"] for page in pages for each in page}


def ai_calls(service: Deployment) -> int:
    return sum(service.server.control("GET", "/calls").get("ai", {}).values())


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def cfrag(service: Deployment, *arguments: str | Path, key: str = SECRET, url: str = "") -> Done:
    """A command on a service, or on another address of it."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("CFRAG_URL", url or service.url)
        patch.setenv("CFRAG_KEY", key)
        returncode = main([str(each) for each in arguments])
    return Done(returncode, out.getvalue(), err.getvalue())


def started(service: Deployment, *arguments: str | Path, url: str) -> "subprocess.Popen[str]":
    """The same as a process of its own, which can be killed."""
    return subprocess.Popen(
        [sys.executable, "-m", "cfrag", *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"CFRAG_URL": url or service.url, "CFRAG_KEY": SECRET},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


class Gate:
    """A service's other address: passes calls on, and does what was planned before one of them."""

    def __init__(self, service: Deployment) -> None:
        self.plans: list[tuple[str, int, Callable[[], None]]] = []
        self.seen: list[str] = []
        gate, target = self, httpx.Client(base_url=service.url, timeout=60)

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                gate.pass_by(self.path)
                names = ("authorization", "content-type")
                headers = {name: self.headers[name] for name in names if self.headers[name]}
                answer = target.request(self.command, self.path, content=body, headers=headers)
                self.send_response(answer.status_code)
                self.send_header("content-type", answer.headers["content-type"])
                self.send_header("content-length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            do_GET = do_POST = _pass_on

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Nothing to say of a client that was killed."""

        self._server, self._target = Server(("127.0.0.1", 0), Handler), target
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Gate":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._target.close()

    def before(self, path: str, number: int, work: Callable[[], None]) -> None:
        """Do this before the call of that number, from now on, whose path begins so."""
        self.plans.append((path, number + self._passed(path), work))

    def kill_before(self, path: str, number: int, process: "subprocess.Popen[str]") -> None:
        """End a process by SIGKILL in front of its call, which is not made."""

        def kill() -> None:
            process.send_signal(signal.SIGKILL)
            raise ConnectionAbortedError

        self.before(path, number, kill)

    def pass_by(self, path: str) -> None:
        self.seen.append(path)
        for start, number, work in self.plans:
            if path.startswith(start) and self._passed(start) == number:
                work()

    def _passed(self, start: str) -> int:
        return sum(each.startswith(start) for each in self.seen)
