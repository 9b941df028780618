"""The process of the local Cloudflare: start it, find it, stop it."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from cfrag.errors import Unreachable
from cfrag.pulumi_env import ROOT, LocalApi

START_SECONDS = 60.0
STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Running:
    """A local Cloudflare that answers. `url` is its root; the REST API is below `/client/v4`."""

    home: Path
    pid: int
    url: str
    token: str
    account_id: str

    @property
    def api(self) -> LocalApi:
        return LocalApi(f"{self.url}/client/v4", self.token, self.account_id)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The `result` of a control call, such as `GET /__local/status`. Raises Unreachable."""
        try:
            answer = httpx.request(
                method,
                self.url + path,
                json=body,
                headers={"Authorization": f"Bearer {self.token}"},
                timeout=30,
                trust_env=False,
            )
            envelope = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise Unreachable(f"the local Cloudflare at {self.url} does not answer: {error}") from error
        if not envelope.get("success"):
            raise Unreachable(f"the local Cloudflare refused {path}: {envelope['errors'][0]['message']}")
        return envelope["result"]

    def reserve(self, worker: str) -> str:
        """The address that the Worker `worker` has, or will have once it is deployed."""
        return str(self.call("POST", "/__local/reserve", {"worker": worker})["url"])


def find(home: Path) -> Running | None:
    """The local Cloudflare of `home`, if it runs and is ready."""
    if holder(home) is None:
        return None
    try:
        kept = json.loads((home / "local/local.json").read_text())
    except (OSError, ValueError):
        return None
    return Running(home, kept["pid"], kept["url"], kept["token"], kept["accountId"])


def need(home: Path) -> Running:
    """As `find`; raises Unreachable where there is none."""
    if running := find(home):
        return running
    raise Unreachable(f"no local Cloudflare runs for {home}; start it with: cfrag local start")


def start(home: Path, port: int | None = None) -> Running:
    """Start the server of `home` in the background, or find the one that runs; returns when it answers.

    Raises Unreachable with what the server said, where it does not start.
    """
    if running := find(home):
        return running
    log = home / "local/server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "local.server",
                "--home",
                str(home),
                *(["--port", str(port)] if port else []),
            ],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return _wait_ready(home, process, log)


def _wait_ready(home: Path, process: "subprocess.Popen[bytes]", log: Path) -> Running:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if (running := find(home)) and _answers(running):
            return running
        # Of two starts at once, one server gives way to the other.
        if process.poll() is not None and holder(home) is None:
            break
        time.sleep(0.05)
    else:
        process.kill()
    words = log.read_text(errors="replace").strip().splitlines()[-3:]
    reason = " / ".join(words) or "it printed nothing"
    raise Unreachable(f"the local Cloudflare did not start: {reason.removeprefix('error: ')} (log: {log})")


def _answers(running: Running) -> bool:
    try:
        running.call("GET", "/__local/status")
    except Unreachable:
        return False
    return True


def stop(home: Path) -> bool:
    """End the server of `home` and all that it started; False where none runs.

    The pid is that of the process holding the folder's lock, so it can be nobody else's.
    """
    pid = holder(home)
    if pid is None:
        return False
    os.kill(pid, signal.SIGTERM)
    if not _released(home, STOP_SECONDS):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if not _released(home, 5):
            raise Unreachable(f"process {pid}, the local Cloudflare of {home}, can't be ended")
    return True


def _released(home: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while holder(home) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def holder(home: Path) -> int | None:
    """The pid of the server that holds the state folder of `home`."""
    try:
        file = (home / "local/lock").open()
    except OSError:
        return None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            written = file.read().strip()
            return int(written) if written else None
    return None
