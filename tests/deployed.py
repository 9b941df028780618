"""A stack that `cfrag demo` has deployed and filled, shared by the processes of one test run."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from cfrag import local_process
from cfrag.client import Client
from cfrag.local_process import Running
from cfrag.local_stack import LocalStack
from cfrag.pulumi_env import ROOT, pulumi_env

# Building nothing, downloading nothing: what remains is a deployment and 409 embeddings on a busy machine.
DEMO_SECONDS = 300


@dataclass(frozen=True)
class DemoRun:
    """What one `cfrag demo` printed, and how long it took."""

    returncode: int
    output: str
    seconds: float


@dataclass(frozen=True)
class Deployed:
    """The stack `local` under `home`, its Worker at `url`. Shared: use ids of your own, change no config."""

    home: Path
    url: str
    key: str
    first_run: DemoRun

    @property
    def cloudflare(self) -> Running:
        return local_process.need(self.home)

    @property
    def stack(self) -> LocalStack:
        return LocalStack(self.home, pulumi_env(self.home, self.cloudflare.api))

    def client(self) -> Client:
        return Client(self.url, self.key)

    def demo(self) -> DemoRun:
        return run_demo(self.home)

    def cfrag(self, *arguments: str, stdin: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
        """A `cfrag` command on this stack, as a person would run it; `variables` go into its environment."""
        return subprocess.run(
            [sys.executable, "-m", "cfrag", *arguments],
            cwd=ROOT,
            env=self.environment | variables,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def environment(self) -> dict[str, str]:
        """As after `eval "$(cfrag local env)"`."""
        api = self.cloudflare.api
        account = {
            "CLOUDFLARE_BASE_URL": api.base_url,
            "CLOUDFLARE_API_TOKEN": api.token,
            "CLOUDFLARE_ACCOUNT_ID": api.account_id,
        }
        return environment_of(self.home) | account | {"CFRAG_URL": self.url, "CFRAG_KEY": self.key}


def environment_of(home: Path) -> dict[str, str]:
    return os.environ | {"CFRAG_HOME": str(home), "COLUMNS": "120"}


def run_demo(home: Path) -> DemoRun:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "cfrag", "demo"],
        cwd=ROOT,
        env=environment_of(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )
    return DemoRun(done.returncode, done.stdout, time.monotonic() - started)


@contextmanager
def shared(folder: Path) -> Iterator[Deployed]:
    """The one deployment below `folder`: the first process makes it, the last one to leave stops it."""
    home, users = folder / "deployed", folder / "deployed-users"
    with FileLock(folder / "deployed.lock"):
        deployed = _existing(home) or _deploy(home)
        _count(users, 1)
    try:
        yield deployed
    finally:
        with FileLock(folder / "deployed.lock"):
            if _count(users, -1) == 0:
                local_process.stop(home)


def _deploy(home: Path) -> Deployed:
    home.mkdir(exist_ok=True)
    # The Worker's packages are cached by their lock file; a test run downloads them no second time.
    (home / "cache").symlink_to(ROOT / ".cfrag/cache", target_is_directory=True)
    run = run_demo(home)
    if run.returncode:
        local_process.stop(home)
        raise RuntimeError(f"cfrag demo ended with exit code {run.returncode}:\n{run.output}")
    stack = LocalStack(home, pulumi_env(home, local_process.need(home).api))
    described = {"url": stack.outputs()["url"], "output": run.output, "seconds": run.seconds}
    (home / "deployed.json").write_text(json.dumps(described))
    return Deployed(home, described["url"], stack.internal_secret, run)


def _existing(home: Path) -> Deployed | None:
    """What another process has deployed; started again where that process was done with it."""
    if not (home / "deployed.json").exists():
        return None
    described = json.loads((home / "deployed.json").read_text())
    stack = LocalStack(home, pulumi_env(home, local_process.start(home).api))
    run = DemoRun(0, described["output"], described["seconds"])
    return Deployed(home, described["url"], stack.internal_secret, run)


def _count(users: Path, change: int) -> int:
    count = (int(users.read_text()) if users.exists() else 0) + change
    users.write_text(str(count))
    return count
