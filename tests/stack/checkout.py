"""A checkout of this project with one stack, driven by the real Pulumi CLI."""

import json
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from cfrag.file_backend import mend
from cfrag.pulumi_env import ROOT, pulumi_env
from tests.provider.support import LocalCloudflare
from tests.stack.cutting import cut_short

SECRET = "the-internal-secret-of-the-test-0123456789"
RAG = {
    "name": "team-docs",
    "metadata": {"chapter": {"type": "string"}, "words": {"type": "number"}},
    "docsPublic": True,
}
_PARTS = ("infra", "worker_template", "migrations")
_TIMEOUT = 300
Json = dict[str, Any]


@dataclass
class Checkout:
    """A folder with the project in it, and a stack of it on its own backend."""

    folder: Path
    environment: dict[str, str]
    stack: str

    @classmethod
    def create(cls, folder: Path, cloudflare: LocalCloudflare, plugins: Path, stack: str) -> "Checkout":
        """`plugins` is the CLI's home with the cloudflare plugin, which several may share."""
        for part in _PARTS:
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("Pulumi.yaml", "__main__.py"):
            shutil.copy(ROOT / name, folder / name)
        environment = pulumi_env(plugins, cloudflare.api)
        for name in ("PULUMI_CONFIG_PASSPHRASE_FILE", "PULUMI_OPTION_CONFIG_FILE"):
            environment.pop(name, None)
        environment |= {
            "CFRAG_HOME": str(home_with_packages(folder)),
            "PULUMI_BACKEND_URL": backend(folder / "state"),
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PYTHONPATH": str(folder),
        }
        checkout = cls(folder, environment, stack)
        checkout.init(cloudflare)
        return checkout

    def init(self, cloudflare: LocalCloudflare) -> None:
        """An empty stack with the settings that this machine's Cloudflare needs."""
        self.run("stack", "init", self.stack)
        plain = ["--plaintext", f"cf-rag:accountId={cloudflare.account}"]
        secret = [f"cloudflare:apiToken={cloudflare.token}", f"cf-rag:internalApiSecret={SECRET}"]
        self.run("config", "set-all", *plain, *(part for each in secret for part in ("--secret", each)))

    def configure(self, rag: Mapping[str, Any]) -> None:
        """Write the service's config into the stack's settings file, as a person would."""
        path = self.folder / f"Pulumi.{self.stack}.yaml"
        settings = yaml.safe_load(path.read_text())
        settings["config"]["cf-rag:rag"] = dict(rag)
        path.write_text(yaml.safe_dump(settings, sort_keys=False))

    def run(self, *arguments: str, fails: bool = False) -> str:
        """Run `pulumi` and return all that it printed, having checked how it ended."""
        try:
            done = subprocess.run(
                ["pulumi", *arguments, "--non-interactive", "--color", "never"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"pulumi {arguments[0]} hangs: {late.stdout!r} {late.stderr!r}") from late
        output = done.stdout + done.stderr
        assert (done.returncode != 0) is fails, output
        assert "Traceback" not in output, output
        return output

    def up(self, *arguments: str, fails: bool = False) -> str:
        return self.run("up", "--yes", "--skip-preview", *arguments, fails=fails)

    def preview(self, *arguments: str, fails: bool = False) -> str:
        return self.run("preview", *arguments, fails=fails)

    def kill_up_after(self, words: str) -> None:
        """Start `pulumi up` and kill it, with its plugins, as soon as it has printed `words`."""
        command = ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--color", "never"]
        cut_short(command, words, folder=self.folder, environment=self.environment)

    def unlock(self) -> None:
        """What a person does after a killed `pulumi`: put the last whole state back, and release the lock."""
        mend(self.folder / f"state/.pulumi/stacks/cf-rag/{self.stack}.json")
        self.run("cancel", "--yes")

    def urn(self, name: str) -> str:
        return str(self.resources()[name]["urn"])

    def state(self) -> Json:
        state: Json = json.loads(self.run("stack", "export"))
        return state

    def resources(self) -> dict[str, Json]:
        """The state's resources by logical name."""
        found = self.state()["deployment"].get("resources", [])
        return {each["urn"].rsplit("::", 1)[-1]: each for each in found}

    def outputs(self) -> Json:
        outputs: Json = json.loads(self.run("stack", "output", "--json"))
        return outputs

    def service(self) -> "Service":
        return Service(self.outputs()["url"])


def home_with_packages(folder: Path) -> Path:
    """A home of the checkout's own; the Worker's packages are downloaded no second time."""
    home = folder / ".cfrag"
    home.mkdir()
    (home / "cache").symlink_to(ROOT / ".cfrag/cache", target_is_directory=True)
    return home


def backend(folder: Path) -> str:
    folder.mkdir()
    return folder.as_uri()


@dataclass(frozen=True)
class Service:
    """The deployed Worker, over HTTP."""

    url: str

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {SECRET}"}
        return httpx.request(method, self.url + path, json=body, headers=headers, timeout=60, trust_env=False)

    def result(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.call(method, path, body)
        assert answer.is_success, answer.text
        return answer.json()

    def search(self, query: str, **more: Any) -> list[str]:
        """Ids of the hits, best first."""
        hits = self.result("POST", "/v1/search", {"query": query, **more})["hits"]
        return [hit["id"] for hit in hits]

    def search_until(self, wanted: str, query: str, **more: Any) -> list[str]:
        """As `search`, asked again for a while until a written document can be seen."""
        for _ in range(50):
            if wanted in (found := self.search(query, **more)):
                return found
            time.sleep(0.1)
        raise AssertionError(f"{wanted} is not among {found}")
