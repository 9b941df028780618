"""A local Cloudflare and real Pulumi projects in temporary folders."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloudflare import Cloudflare

from cfrag.plugins import ensure_cloudflare_plugin
from cfrag.pulumi_env import ROOT, LocalApi, pulumi_env

PROGRAM = Path(__file__).parent / "program/__main__.py"
Wanted = list[dict[str, Any]]


@dataclass
class LocalCloudflare:
    """A running `local.server` and the official client on it."""

    home: Path
    process: subprocess.Popen[bytes]
    url: str
    token: str
    account: str
    client: Cloudflare = field(init=False)

    def __post_init__(self) -> None:
        self.client = Cloudflare(api_token=self.token, base_url=self.api.base_url, max_retries=0)

    @property
    def api(self) -> LocalApi:
        return LocalApi(f"{self.url}/client/v4", self.token, self.account)

    @classmethod
    def start(cls, home: Path, port: int) -> "LocalCloudflare":
        """Start it on an empty folder and wait until it is ready."""
        home.mkdir(parents=True, exist_ok=True)
        with (home / "server.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "local.server", "--home", str(home), "--port", str(port)],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        ready = home / "local/local.json"
        for _ in range(300):
            if ready.exists():
                found = json.loads(ready.read_text())
                return cls(home, process, found["url"], found["token"], found["accountId"])
            assert process.poll() is None, (home / "server.log").read_text()
            time.sleep(0.1)
        raise AssertionError("the local Cloudflare did not start")

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """A call of the server's own controls."""
        import httpx

        headers = {"Authorization": f"Bearer {self.token}"}
        answer = httpx.request(method, self.url + path, json=body, headers=headers, trust_env=False)
        assert answer.is_success, answer.text
        return answer.json()["result"]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


@dataclass
class Project:
    """A Pulumi project with one stack on its own backend, run by the real CLI."""

    folder: Path
    environment: dict[str, str]
    stack: str = "dev"

    @classmethod
    def create(cls, folder: Path, cloudflare: LocalCloudflare, home: Path) -> "Project":
        """An empty stack `dev`; `home` holds the CLI's plugins and may be shared."""
        folder.mkdir(parents=True)
        (folder / "state").mkdir()
        shutil.copy(PROGRAM, folder / "__main__.py")
        provider = json.dumps(str(ROOT / "infra/provider"))
        (folder / "Pulumi.yaml").write_text(
            "name: shop\nruntime: python\n"
            f"plugins:\n  providers:\n    - name: cfrag\n      path: {provider}\n"
        )
        environment = pulumi_env(home, cloudflare.api)
        environment.pop("PULUMI_CONFIG_PASSPHRASE_FILE")
        environment.pop("PULUMI_OPTION_CONFIG_FILE", None)
        environment |= {
            "PULUMI_BACKEND_URL": (folder / "state").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PYTHONPATH": str(ROOT),
        }
        project = cls(folder, environment)
        project.run("stack", "init", project.stack)
        return project

    def want(self, wanted: Wanted) -> None:
        """What the program declares from now on."""
        (self.folder / "wanted.json").write_text(json.dumps(wanted))

    def run(self, *arguments: str, fails: bool = False, **environment: str) -> str:
        """Run `pulumi` and return all of its output, having checked how it ended."""
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive", "--color", "never"],
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        output = done.stdout + done.stderr
        assert (done.returncode != 0) is fails, output
        assert "Traceback" not in output, output
        return output

    def up(self, *arguments: str, fails: bool = False, **environment: str) -> str:
        return self.run("up", "--yes", "--skip-preview", *arguments, fails=fails, **environment)

    def preview(self, *arguments: str, fails: bool = False) -> str:
        return self.run("preview", "--diff", *arguments, fails=fails)

    def export(self) -> dict[str, Any]:
        """The stack's state, as a person would export it."""
        done = subprocess.run(
            ["pulumi", "stack", "export"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        state: dict[str, Any] = json.loads(done.stdout)
        return state

    def resource(self, name: str) -> dict[str, Any]:
        """One resource of the state, by its logical name."""
        found = [
            each for each in self.export()["deployment"]["resources"] if each["urn"].endswith(f"::{name}")
        ]
        assert len(found) == 1, found
        one: dict[str, Any] = found[0]
        return one


def plugin_home(folder: Path, cloudflare: LocalCloudflare) -> Path:
    """A CLI home with the cloudflare plugin that this machine can have."""
    ensure_cloudflare_plugin(pulumi_env(folder, cloudflare.api) | {"HOME": os.environ["HOME"]})
    return folder
