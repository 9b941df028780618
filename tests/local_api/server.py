"""A real local Cloudflare of a test's own: its process, its clients, small Workers to upload."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from cloudflare import Cloudflare
from cloudflare.types.workers.beta import Worker

ROOT = Path(__file__).parents[2]
COMPATIBILITY_DATE = "2026-04-01"
JsonObject = dict[str, Any]

HELLO = """export default {
  async fetch(request, env) {
    return new Response(`hello from ${env.WHO ?? "nobody"}`);
  },
};"""


class LocalServer:
    """`python -m local.server` on a folder; kill or stop it and start it again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process: subprocess.Popen[bytes] | None = None
        self.info: JsonObject = {}
        self._client: Cloudflare | None = None

    def start(self) -> "LocalServer":
        self.home.mkdir(parents=True, exist_ok=True)
        log = (self.home / "server.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "local.server", "--home", str(self.home)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        log.close()
        wait_for(self._is_ready, lambda: f"the server does not answer: {self.log()}")
        return self

    def _is_ready(self) -> bool:
        assert self.process
        assert self.process.poll() is None, self.log()
        try:
            self.info = json.loads((self.home / "local/local.json").read_text())
            return (
                self.info["pid"] == self.process.pid and self.raw("GET", "/__local/status").status_code == 200
            )
        except (OSError, ValueError, httpx.HTTPError):
            return False

    def log(self) -> str:
        return (self.home / "server.log").read_text()[-2000:]

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = None

    def _end(self, number: signal.Signals) -> None:
        self.close()
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(30)

    # clients

    @property
    def url(self) -> str:
        return str(self.info["url"])

    @property
    def account(self) -> str:
        return str(self.info["accountId"])

    def client(self) -> Cloudflare:
        """The official SDK, as anyone would use it."""
        if self._client is None:
            base_url = f"{self.url}/client/v4"
            self._client = Cloudflare(api_token=self.info["token"], base_url=base_url, max_retries=0)
        return self._client

    def raw(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.info['token']}"} | options.pop("headers", {})
        return httpx.request(method, self.url + path, headers=headers, timeout=60, **options)

    def api(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A call below the account."""
        return self.raw(method, f"/client/v4/accounts/{self.account}{path}", **options)

    def control(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.raw(method, f"/__local{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]

    # Workers

    def worker(self, name: str) -> Worker:
        return self.client().workers.beta.workers.create(
            account_id=self.account, name=name, subdomain={"enabled": True}
        )

    def upload(self, worker: Worker, source: str | dict[str, str], bindings: list[JsonObject]) -> str:
        """One version with `source` as its main module, or all modules by name, the first the main one."""
        modules = source if isinstance(source, dict) else {"main.mjs": source}
        version = self.client().workers.beta.workers.versions.create(
            worker.id,
            account_id=self.account,
            main_module=next(iter(modules)),
            compatibility_date=COMPATIBILITY_DATE,
            compatibility_flags=["python_workers"] if next(iter(modules)).endswith(".py") else [],
            modules=[module(name, text) for name, text in modules.items()],  # type: ignore[misc]
            bindings=bindings,  # type: ignore[arg-type]
        )
        return version.id

    def deploy(self, worker: Worker, version_id: str) -> None:
        self.client().workers.scripts.deployments.create(
            worker.name,
            account_id=self.account,
            strategy="percentage",
            versions=[{"percentage": 100, "version_id": version_id}],
        )

    def run(self, name: str, source: str | dict[str, str], bindings: list[JsonObject] | None = None) -> str:
        """Create, upload and deploy; the Worker's address."""
        worker = self.worker(name)
        self.deploy(worker, self.upload(worker, source, bindings or []))
        return self.address(worker)

    def address(self, worker: Worker) -> str:
        return str(self.control("POST", "/reserve", {"worker": worker.name})["url"])


def module(name: str, text: str) -> JsonObject:
    kind = "text/x-python" if name.endswith(".py") else "application/javascript+module"
    return {
        "name": name,
        "content_type": kind,
        "content_base64": base64.b64encode(text.encode()).decode(),
    }


def get(url: str, seconds: float = 20.0) -> httpx.Response:
    """GET, tried again while nothing listens: a Worker's process may just be starting again."""
    answer: list[httpx.Response] = []

    def answered() -> bool:
        try:
            answer.append(httpx.get(url, timeout=60))
        except httpx.HTTPError:
            return False
        return True

    wait_for(answered, lambda: f"nothing answers at {url}", seconds)
    return answer[0]


def wait_for(condition: Callable[[], bool], message: Callable[[], str], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, message()
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return not state.stdout.strip().startswith("Z")
