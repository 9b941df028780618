"""Example hosts with the service in them, in one process of a local Cloudflare, bound as their files say."""

import base64
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from cfrag.graft import host, jsonc, plan
from cfrag.pulumi_env import ROOT
from infra.bundle import store, vendor
from infra.bundle.manifest import Module, module
from infra.config import RagConfig
from tests.local_api.server import LocalServer

SECRET = "the-internal-secret-of-the-test-0123456789"
CONFIG = RagConfig(name="docs")
STACK = "test"

Json = dict[str, Any]


@dataclass(frozen=True)
class Grafted:
    """A host's address, and what it has been given."""

    url: str
    folder: Path

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.request(method, self.url + path, json=body, headers=names, timeout=120, trust_env=False)


class Town:
    """What the hosts share: the service's index, database and queues, as the stack's resources are."""

    def __init__(self, server: LocalServer, scratch: Path) -> None:
        self.server = server
        self.scratch = scratch
        self.databases: dict[str, str] = {}
        self.queues: dict[str, str] = {}
        self._applied: set[tuple[str, str]] = set()
        names = CONFIG.names(STACK)
        self._index(names.index(1, CONFIG.model.dims))
        self.database(names.db)
        for queue in (names.ingest, names.dlq):
            self.queue(queue)

    def _create(self, path: str, body: Json) -> Any:
        answer = self.server.api("POST", path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()["result"]

    def _index(self, name: str) -> None:
        space = {"dimensions": CONFIG.model.dims, "metric": "cosine"}
        self._create("/vectorize/v2/indexes", {"name": name, "config": space})
        for index in CONFIG.metadata_indexes():
            body = {"propertyName": index.property_name, "indexType": index.type}
            self._create(f"/vectorize/v2/indexes/{name}/metadata_index/create", body)

    def database(self, name: str) -> str:
        if name not in self.databases:
            self.databases[name] = self._create("/d1/database", {"name": name})["uuid"]
        return self.databases[name]

    def queue(self, name: str) -> str:
        if name not in self.queues:
            self.queues[name] = self._create("/queues", {"queue_name": name})["queue_id"]
        return self.queues[name]

    def graft(self, example: str, name: str, auth: plan.AuthChoice, *, consumes: bool = False) -> Grafted:
        """Deploy an example under a name, with its callers; `consumes` makes it its queues' consumer."""
        folder = Path(shutil.copytree(ROOT / "examples/graft_host" / example, self.scratch / name))
        authorize = "sessions:scopes_of" if auth == "host" else None
        worker = host.find(folder)
        plan.make(worker, plan.Wish(CONFIG, STACK, auth=auth, authorize=authorize)).write()
        settings = jsonc.parse((folder / "wrangler.jsonc").read_text()).plain()
        bindings = self._bindings(settings)
        self._migrate(folder, settings)
        url = self._deploy(name, settings, _modules(folder / worker.source), bindings)
        for consumer in settings["queues"]["consumers"] if consumes else []:
            self._consume(name, consumer)
        return Grafted(url, folder)

    def _bindings(self, settings: Json) -> list[Json]:
        """The file's bindings, as the API wants them."""
        return [
            {"type": "ai", "name": settings["ai"]["binding"]},
            *(
                {"type": "d1", "name": each["binding"], "id": self.database(each["database_name"])}
                for each in settings["d1_databases"]
            ),
            *(
                {"type": "vectorize", "name": each["binding"], "index_name": each["index_name"]}
                for each in settings["vectorize"]
            ),
            *(
                {"type": "queue", "name": each["binding"], "queue_name": self._known(each["queue"])}
                for each in settings["queues"]["producers"]
            ),
            *({"type": "plain_text", "name": name, "text": text} for name, text in settings["vars"].items()),
            *(
                {"type": "secret_text", "name": name, "text": SECRET}
                for name in settings.get("secrets", {}).get("required", [])
            ),
        ]

    def _known(self, queue: str) -> str:
        self.queue(queue)
        return queue

    def _migrate(self, folder: Path, settings: Json) -> None:
        """What `wrangler d1 migrations apply` does, for databases that have migrations."""
        for each in settings["d1_databases"]:
            for file in sorted((folder / each.get("migrations_dir", "none")).glob("*.sql")):
                path = f"/d1/database/{self.database(each['database_name'])}/query"
                if (path, file.name) not in self._applied:
                    self._create(path, {"sql": file.read_text()})
                    self._applied.add((path, file.name))

    def _deploy(self, name: str, settings: Json, modules: list[Module], bindings: list[Json]) -> str:
        worker = self.server.worker(name)
        version = self.server.client().workers.beta.workers.versions.create(
            worker.id,
            account_id=self.server.account,
            main_module=Path(settings["main"]).name,
            compatibility_date=settings["compatibility_date"],
            compatibility_flags=settings["compatibility_flags"],
            modules=[
                {
                    "name": each.name,
                    "content_type": each.content_type,
                    "content_base64": base64.b64encode(each.content).decode(),
                }
                for each in modules
            ],
            bindings=bindings,  # type: ignore[arg-type]
        )
        self.server.deploy(worker, version.id)
        return self.server.address(worker)

    def _consume(self, name: str, consumer: Json) -> None:
        body = {
            "type": "worker",
            "script_name": name,
            "settings": {"batch_size": consumer["max_batch_size"], "max_wait_time_ms": 100},
        }
        self._create(f"/queues/{self.queue(consumer['queue'])}/consumers", body)


def _modules(source: Path) -> list[Module]:
    """The host's modules, and the packages that its pyproject.toml names, as pywrangler puts them there."""
    files = (path for path in sorted(source.rglob("*.py")) if "__pycache__" not in path.parts)
    own = [module(path.relative_to(source).as_posix(), path.read_bytes()) for path in files]
    return [*own, *vendor.load(store.home()).modules]
