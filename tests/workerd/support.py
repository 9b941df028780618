"""Cells of small Workers, started as the local Cloudflare starts them."""

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from infra.bundle import store, vendor
from infra.bundle.manifest import Module

ROOT = Path(__file__).resolve().parents[2]
CELL = ROOT / "local" / "workerd" / "cell.mjs"
BUNDLES = Path(__file__).parent / "bundles"
DATABASE = "0c0ffee0-0000-4000-8000-000000000001"
OTHER_DATABASE = "0c0ffee0-0000-4000-8000-000000000002"
TOKEN = "token-of-the-test"
# Generous, for machines with much else to do: nothing waits longer than it must.
PATIENCE = 60.0

Json = dict[str, Any]
_TYPES = {
    ".py": "text/x-python",
    ".js": "application/javascript+module",
    ".mjs": "application/javascript+module",
}
SDK = ("python_modules/workers/", "python_modules/_workers_sdk", "python_modules/asgi.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def worker(name: str, bundle: Path, main: str, bindings: list[Json]) -> Json:
    """The entry of a cell file for the bundle that lies in a folder."""
    names = sorted(path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file())
    types = {module: _TYPES.get(Path(module).suffix, "application/octet-stream") for module in names}
    return {
        "name": name,
        "versionId": f"version-of-{name}",
        "host": "127.0.0.1",
        "port": free_port(),
        "bundleDir": str(bundle),
        "modules": [{"name": module, "contentType": types[module]} for module in names],
        "mainModule": main,
        "compatibilityDate": "2026-09-08",
        "compatibilityFlags": ["python_workers"] if main.endswith(".py") else [],
        "bindings": bindings,
    }


class Api:
    """Stands where the local API's binding endpoints are: records calls, answers what a test wants."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, str]] = []
        self.answers: dict[str, Json] = {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path: str, reply: Json) -> None:
        """Reply to calls of a path below /__bindings/ from now on; forgets earlier calls."""
        self.answers[path] = reply
        self.calls.clear()

    def bodies(self, path: str) -> list[Any]:
        return [body for called, body, _ in self.calls if called == path]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                path = self.path.removeprefix("/__bindings/")
                trusted = self.headers["x-cfrag-token"] == TOKEN
                api.calls.append((path, body, self.headers["x-cfrag-worker"]))
                self._reply(api.answers.get(path, {"ok": {}}) if trusted else {"error": {"message": "token"}})

            def _reply(self, reply: Json) -> None:
                content = json.dumps(reply).encode()
                self.send_response(200 if "ok" in reply else 400)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@dataclass
class Cell:
    """One running `node cell.mjs`."""

    file: Path
    config: Json
    process: subprocess.Popen[str]
    ready: Json = field(default_factory=dict)
    logs: list[Json] = field(default_factory=list)

    def wait_ready(self) -> None:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, f"the cell ended: {self.logs}"
        self.ready = json.loads(line)

    def url(self, name: str) -> str:
        port = next(entry["port"] for entry in self.config["workers"] if entry["name"] == name)
        return f"http://127.0.0.1:{port}"

    def get(self, name: str, path: str) -> Any:
        response = httpx.get(self.url(name) + path, timeout=PATIENCE)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, name: str, path: str, body: Any) -> Any:
        response = httpx.post(self.url(name) + path, json=body, timeout=PATIENCE)
        assert response.status_code == 200, response.text
        return response.json()

    def control(self, method: str, path: str, body: Json | None = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {TOKEN}"}
        return httpx.request(
            method, self.ready["control"] + path, json=body, headers=headers, timeout=PATIENCE
        )

    def sql(self, statement: str, *params: Any) -> list[Json]:
        answer = self.control(
            "POST", f"/d1/{DATABASE}", {"statements": [{"sql": statement, "params": params}]}
        )
        assert answer.status_code == 200, answer.text
        rows: list[Json] = answer.json()["results"][0]["results"]
        return rows

    def logged(self, text: str, seconds: float = PATIENCE) -> Json:
        """The log entry that holds the text, waited for."""
        deadline = time.monotonic() + seconds
        while True:
            for entry in list(self.logs):
                if text in entry["message"]:
                    return entry
            assert time.monotonic() < deadline, f"{text!r} is not in {self.logs}"
            time.sleep(0.02)

    def stop(self) -> int:
        self.process.terminate()
        return self.ended()

    def ended(self, seconds: float = PATIENCE) -> int:
        """The exit code, waited for."""
        code = self.process.wait(timeout=seconds)
        self.close()
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()


StartCell = Callable[..., Cell]


def packages() -> tuple[Module, ...]:
    return vendor.load(store.home()).modules


def write(folder: Path, modules: tuple[Module, ...]) -> Path:
    for module in modules:
        path = folder / module.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(module.content)
    return folder


def launch(file: Path, config: Json) -> Cell:
    process = subprocess.Popen(
        ["node", str(CELL), str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    cell = Cell(file, config, process)
    threading.Thread(target=_collect, args=(cell,), daemon=True).start()
    return cell


def _collect(cell: Cell) -> None:
    assert cell.process.stderr
    with cell.process.stderr as lines:
        for line in lines:
            cell.logs.append(json.loads(line))


@dataclass(frozen=True)
class Shop:
    """The bundles on disk: those of tests/workerd/bundles with the runtime SDK beside them."""

    folder: Path
    sdk: tuple[Module, ...]

    def python(self, name: str, source: Path, bindings: list[Json]) -> Json:
        bundle = self.folder / name
        shutil.copytree(source, bundle, ignore=shutil.ignore_patterns("__pycache__"))
        return worker(name, write(bundle, self.sdk), "entry.py", bindings)

    def written(self, name: str, source: str, bindings: list[Json] | None = None) -> Json:
        """A Python Worker of one module."""
        bundle = self.folder / name
        bundle.mkdir()
        (bundle / "entry.py").write_text(source)
        return worker(name, write(bundle, self.sdk), "entry.py", bindings or [])

    def javascript(self, name: str, source: Path, bindings: list[Json]) -> Json:
        return worker(name, source, "index.js", bindings)


def shared_bindings() -> list[Json]:
    return [
        {"type": "ai", "name": "AI"},
        {"type": "d1", "name": "DB", "id": DATABASE},
        {"type": "vectorize", "name": "VECTORIZE", "index_name": "docs-384-g1"},
        {"type": "queue", "name": "QUEUE", "queue_name": "ingest"},
    ]


def probe(shop: Shop, name: str = "probe") -> Json:
    own: list[Json] = [
        {"type": "plain_text", "name": "TEXT", "text": "a text"},
        {"type": "secret_text", "name": "SECRET", "text": "a secret"},
        {"type": "json", "name": "SETTINGS", "json": {"deep": [1, {"a": None}]}},
        {"type": "ratelimit", "name": "LIMIT", "namespace_id": "1001", "simple": {"limit": 2, "period": 60}},
        {"type": "version_metadata", "name": "VERSION"},
    ]
    return shop.python(name, BUNDLES / "probe", shared_bindings() + own)


def callers(shop: Shop) -> list[Json]:
    """A JavaScript Worker and a Python one, both bound to the probe."""
    services: list[Json] = [
        {"type": "service", "name": "RAG", "service": "probe", "entrypoint": "RagEntrypoint"},
        {"type": "service", "name": "PROBE", "service": "probe"},
    ]
    name: list[Json] = [{"type": "plain_text", "name": "NAME", "text": "the caller"}]
    return [
        shop.javascript("caller", BUNDLES / "caller", shared_bindings() + services + name),
        shop.python("neighbour", BUNDLES / "neighbour", shared_bindings()[1:2] + services),
    ]
