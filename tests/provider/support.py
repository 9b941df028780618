"""A local Cloudflare and real Pulumi projects in temporary folders."""

import asyncio
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

import httpx
from cloudflare import Cloudflare
from pulumi.provider.experimental import provider as sdk

from cfrag.plugins import ensure_cloudflare_plugin
from cfrag.pulumi_env import ROOT, LocalApi, pulumi_env
from infra.provider.account import Account
from infra.provider.engine import Engine
from infra.provider.plugin import Plugin
from infra.provider.resources import RESOURCES
from infra.provider.values import Values, to_plain_map, to_properties
from local.provider.resources import RESOURCES as STAND_IN

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
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = httpx.request(method, self.url + path, json=body, headers=headers, trust_env=False)
        assert answer.is_success, answer.text
        return answer.json()["result"]

    def index(self, name: str, dims: int = 768, *, description: str = "", vectors: int = 0) -> str:
        """Make an index by hand, with vectors in it."""
        vectorize = self.client.vectorize.indexes
        vectorize.create(
            account_id=self.account,
            name=name,
            description=description,
            config={"dimensions": dims, "metric": "cosine"},
        )
        if vectors:
            self.fill(name, vectors, dims=dims)
        return name

    def fill(self, name: str, vectors: int, *, dims: int = 768) -> None:
        """Put vectors into an index and wait until they are seen."""
        lines = [json.dumps({"id": f"v{n}", "values": [1.0] + [0.0] * (dims - 1)}) for n in range(vectors)]
        self.client.post(
            f"/accounts/{self.account}/vectorize/v2/indexes/{name}/upsert",
            cast_to=object,
            content="\n".join(lines).encode(),
            options={"headers": {"Content-Type": "application/x-ndjson"}},
        )
        while (
            info := self.client.vectorize.indexes.info(name, account_id=self.account)
        ) is None or not info.vector_count:
            time.sleep(0.05)

    def database(self, name: str, *statements: str) -> str:
        """Make a database by hand and run statements in it."""
        made = self.client.d1.database.create(account_id=self.account, name=name)
        assert made.uuid
        for sql in statements:
            self.sql(made.uuid, sql)
        return made.uuid

    def sql(self, database: str, sql: str) -> list[Any]:
        """The rows of one statement."""
        (result,) = self.client.d1.database.query(database, account_id=self.account, sql=sql)
        return list(result.results or ())

    def stop(self) -> None:
        self.client.close()
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


class Messages(Engine):
    """An engine that only remembers what a plugin says."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:1")
        self.lines: list[str] = []
        self.said = asyncio.Event()

    async def info(self, message: str, urn: str) -> None:
        self.lines.append(message)
        self.said.set()

    warn = progress = info


class Direct:
    """The provider called as the engine calls it, without a CLI in between."""

    def __init__(
        self, cloudflare: LocalCloudflare, *, package: str = "cfrag", token: str | None = None
    ) -> None:
        self.package = package
        self.plugin = Plugin(package, "0.1.0", RESOURCES if package == "cfrag" else STAND_IN)
        self.messages = Messages()
        self.plugin.engine = self.messages
        settings = {"apiToken": token or cloudflare.token, "accountId": cloudflare.account}
        self.plugin.account = Account(settings | {"baseUrl": cloudflare.api.base_url})

    async def check(self, kind: str, new: Values, old: Values | None = None) -> dict[str, str]:
        """Reasons of the refusals, by property."""
        response = await self.plugin.check(
            sdk.CheckRequest(self.urn(kind), to_properties(old or {}), to_properties(new), b"")
        )
        return {failure.property: failure.reason for failure in response.failures or ()}

    async def checked(self, kind: str, new: Values) -> Values:
        """The inputs as a check that passes leaves them."""
        response = await self.plugin.check(sdk.CheckRequest(self.urn(kind), {}, to_properties(new), b""))
        assert not response.failures, [failure.reason for failure in response.failures]
        return to_plain_map(response.inputs or {})

    async def diff(self, kind: str, old: Values, new: Values) -> sdk.DiffResponse:
        request = sdk.DiffRequest(self.urn(kind), "id", to_properties(old), to_properties(new), [])
        return await self.plugin.diff(request)

    async def create(self, kind: str, inputs: Values) -> tuple[str, Values]:
        request = sdk.CreateRequest(self.urn(kind), to_properties(inputs), 0, False)
        response = await self.plugin.create(request)
        return response.resource_id or "", to_plain_map(response.properties)

    async def read(self, kind: str, resource_id: str, state: Values | None = None) -> Values | None:
        properties = to_properties(state or {})
        response = await self.plugin.read(
            sdk.ReadRequest(self.urn(kind), resource_id, properties, properties)
        )
        return to_plain_map(response.properties) if response.resource_id else None

    async def update(self, kind: str, resource_id: str, old: Values, new: Values) -> Values:
        request = sdk.UpdateRequest(
            self.urn(kind), resource_id, to_properties(old), to_properties(new), 0, [], False
        )
        return to_plain_map((await self.plugin.update(request)).properties)

    async def delete(self, kind: str, resource_id: str, state: Values) -> None:
        await self.plugin.delete(sdk.DeleteRequest(self.urn(kind), resource_id, to_properties(state), 0))

    def urn(self, kind: str) -> str:
        """A URN as the engine makes it: the official plugin's types hold their module's name as well."""
        module = "index" if self.package == "cfrag" else f"index/{kind[0].lower()}{kind[1:]}"
        return f"urn:pulumi:dev::shop::{self.package}:{module}:{kind}::it"
