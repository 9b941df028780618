"""The rendered bundle as it is deployed: in Pyodide in workerd, on a local Cloudflare of its own."""

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from cloudflare.types.workers.beta import Worker

from infra.bundle import store
from infra.bundle.build import render
from infra.bundle.manifest import VENDORED, Bundle, module
from infra.config import RagConfig
from tests.local_api.server import ROOT, LocalServer

from .engines import SECRET

Json = dict[str, Any]

# A Worker in JavaScript that hands what it gets over HTTP to the RPC method in its path.
CALLER = """
export default {
  async fetch(request, env) {
    const method = new URL(request.url).pathname.slice(1);
    const args = await request.json();
    const answer = await env.RAG[method](...args);
    const plain = answer !== null && Object.getPrototypeOf(answer) === Object.prototype;
    return Response.json({ plain, answer });
  },
};
"""

# The same in Python, where a dict is what is plain.
PYTHON_CALLER = """
from urllib.parse import urlsplit

from workers import Response, WorkerEntrypoint


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        method = urlsplit(request.url).path[1:]
        args = await request.json()
        answer = await getattr(self.env.RAG, method)(*args)
        return Response.json({"plain": isinstance(answer, dict), "answer": answer})
"""


class Deployment:
    """One config's Worker with its database, index and queues."""

    def __init__(self, server: LocalServer, config: RagConfig, name: str) -> None:
        self.server = server
        self.name = name
        self.index = f"{name}-index"
        self.config = config
        self.database = self._create("/d1/database", {"name": f"{name}-db"})["uuid"]
        for migration in sorted((ROOT / "migrations").glob("*.sql")):
            self.rows(migration.read_text())
        space = {"dimensions": config.model.dims, "metric": config.embedding.metric}
        self._create("/vectorize/v2/indexes", {"name": self.index, "config": space})
        for index in config.metadata_indexes():
            body = {"propertyName": index.property_name, "indexType": index.type}
            self._create(f"/vectorize/v2/indexes/{self.index}/metadata_index/create", body)
        self._queues = {
            each: self._create("/queues", {"queue_name": f"{name}-{each}"}) for each in ("in", "dlq")
        }
        self.url = self.deploy(name, config)
        self._consume()

    def _create(self, path: str, body: Json) -> Any:
        answer = self.server.api("POST", path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()["result"]

    def rows(self, sql: str, *params: str) -> list[Json]:
        """What D1 answers, without the Worker."""
        results = self._create(f"/d1/database/{self.database}/query", {"sql": sql, "params": list(params)})
        rows: list[Json] = results[0]["results"]
        return rows

    def vectors(self, *ids: str) -> list[Json]:
        """What Vectorize holds, without the Worker."""
        found: list[Json] = self._create(f"/vectorize/v2/indexes/{self.index}/get_by_ids", {"ids": ids})
        return found

    def deploy(self, name: str, config: RagConfig, **variables: str) -> str:
        """The address of a Worker with a config and variables of its own, on the data of this one."""
        bindings: list[Json] = [
            {"type": "ai", "name": "AI"},
            {"type": "d1", "name": "DB", "id": self.database},
            {"type": "vectorize", "name": "VECTORIZE", "index_name": self.index},
            {"type": "queue", "name": "RAG_INGEST_QUEUE", "queue_name": f"{self.name}-in"},
            {"type": "queue", "name": "RAG_DLQ", "queue_name": f"{self.name}-dlq"},
            {"type": "secret_text", "name": "INTERNAL_API_SECRET", "text": SECRET},
        ]
        wanted = {
            "EMBED_MODEL": config.model.name,
            "EMBED_DIMS": str(config.model.dims),
            "EMBED_GENERATION": "1",
        }
        bindings += [
            {"type": "plain_text", "name": key, "text": value} for key, value in (wanted | variables).items()
        ]
        return self._run(self.server.worker(name), render(config, home=store.home()), bindings)

    def _run(self, worker: Worker, bundle: Bundle, bindings: list[Json]) -> str:
        version = self.server.client().workers.beta.workers.versions.create(
            worker.id,
            account_id=self.server.account,
            main_module=bundle.main_module,
            compatibility_date=bundle.compatibility_date,
            compatibility_flags=list(bundle.compatibility_flags),
            modules=[
                {
                    "name": each.name,
                    "content_type": each.content_type,
                    "content_base64": base64.b64encode(each.content).decode(),
                }
                for each in bundle.modules
            ],
            bindings=bindings,  # type: ignore[arg-type]
        )
        self.server.deploy(worker, version.id)
        return self.server.address(worker)

    def _consume(self) -> None:
        consumer = {
            "type": "worker",
            "script_name": self.name,
            "dead_letter_queue": f"{self.name}-dlq",
            "settings": {"batch_size": 10, "max_retries": 3, "max_wait_time_ms": 200},
        }
        self._create(f"/queues/{self._queues['in']['queue_id']}/consumers", consumer)

    def caller(self, language: str) -> str:
        """The address of a second Worker, bound to this one's RPC entrypoint."""
        binding = {"type": "service", "name": "RAG", "service": self.name, "entrypoint": "RagEntrypoint"}
        if language == "javascript":
            return self.server.run(f"{self.name}-js", CALLER, [binding])
        bundle = render(self.config, home=store.home())
        packages = [each for each in bundle.modules if each.name.startswith(VENDORED)]
        entry = module(bundle.main_module, PYTHON_CALLER.encode())
        bundle = replace(bundle, modules=(entry, *packages))
        return self._run(self.server.worker(f"{self.name}-py"), bundle, [binding])

    def client(self, token: str | None = SECRET, url: str = "") -> httpx.Client:
        """A client of this Worker, or of another one at `url`."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # The runtime ends a connection that was silent for 5 s, the time that it spends booting included.
        limits = httpx.Limits(max_keepalive_connections=0)
        return httpx.Client(base_url=url or self.url, headers=headers, timeout=60, limits=limits)

    def key(self, *scopes: str) -> str:
        """A new API key."""
        with self.client() as client:
            made = client.post("/v1/internal/keys", json={"name": "test", "scopes": scopes})
        assert made.status_code == 201, made.text
        return str(made.json()["key"])

    def logs(self) -> str:
        """What the server and its Workers have printed."""
        return "".join(path.read_text() for path in self.server.home.rglob("*.log"))


def local_cloudflare(home: Path) -> LocalServer:
    """A running local Cloudflare whose Vectorize shows writes at once."""
    server = LocalServer(home).start()
    # Workers boot when they are called: not once for each Worker that joins them.
    server.control("PUT", "/settings", {"vectorizeDelaySeconds": 0, "warmDeploys": False})
    return server
