"""The stack `local` in a home of its own, driven by `cfrag dims` and the Pulumi CLI as a person would."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from cfrag.local_stack import LocalStack
from cfrag.plugins import ensure_cloudflare_plugin
from cfrag.pulumi_env import ROOT, pulumi_env
from tests.deployed import environment_of
from tests.provider.support import Direct, LocalCloudflare
from tests.stack.checkout import SECRET, Json, Service
from tests.stack.cutting import cut_short

RAG: Json = {
    "name": "move",
    "metadata": {"kind": {"type": "string"}, "number": {"type": "number"}},
    "queue": {"batchSize": 20, "maxWaitSeconds": 1},
}
WORKER, TWIN = "move-local-worker", "move-local-twin"
_GET_IDS = 20


@dataclass
class Stand:
    """A deployed stack, and what has been written to it: the documents that must be found, by id."""

    cloudflare: LocalCloudflare
    stack: LocalStack
    written: dict[str, Json] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)

    @classmethod
    def create(cls, home: Path, port: int) -> "Stand":
        """A stack that is configured but not deployed."""
        home.mkdir()
        (home / "cache").symlink_to(ROOT / ".cfrag/cache", target_is_directory=True)
        (home / "internal-api-secret").write_text(SECRET)
        cloudflare = LocalCloudflare.start(home, port)
        cloudflare.control("PUT", "/__local/settings", {"vectorizeDelaySeconds": 0.3})
        stack = LocalStack(home, pulumi_env(home, cloudflare.api))
        ensure_cloudflare_plugin(stack.environment)
        stack.create()
        url = cloudflare.control("POST", "/__local/reserve", {"worker": WORKER})["url"]
        stack.configure(api_token=cloudflare.token, account_id=cloudflare.account, url=url)
        stand = cls(cloudflare, stack)
        stand.configure(RAG)
        return stand

    @property
    def rag(self) -> Json:
        rag: Json = yaml.safe_load(self.stack.config_path.read_text())["config"]["cf-rag:rag"]
        return rag

    def configure(self, rag: Mapping[str, Any]) -> None:
        """Write the service's config into the settings file by hand."""
        settings = yaml.safe_load(self.stack.config_path.read_text())
        settings["config"]["cf-rag:rag"] = dict(rag)
        self.stack.config_path.write_text(yaml.safe_dump(settings, sort_keys=False))

    def pulumi(self, *arguments: str, fails: bool = False) -> str:
        """All that a `pulumi` command prints, having checked how it ended."""
        command = ["pulumi", *arguments, "--stack", "local", "--non-interactive", "--color", "never"]
        return _checked(command, self.stack.environment, fails)

    def cfrag(self, *arguments: str, fails: bool = False) -> str:
        """All that a `cfrag` command prints, having checked how it ended."""
        return _checked([sys.executable, "-m", "cfrag", *arguments], self._environment(), fails)

    def kill_cfrag_after(self, words: str, *arguments: str) -> None:
        """Start a `cfrag` command and SIGKILL it, with all that it started, when `words` are printed."""
        self._cut_short(signal.SIGKILL, words, *arguments)

    def interrupt_cfrag_after(self, words: str, *arguments: str) -> str:
        """As a person's Ctrl-C some time after `words`; all that was printed."""
        return self._cut_short(signal.SIGINT, words, *arguments)

    def _cut_short(self, number: signal.Signals, words: str, *arguments: str) -> str:
        command = [sys.executable, "-m", "cfrag", *arguments]
        return cut_short(command, words, folder=ROOT, environment=self._environment(), number=number)

    def _environment(self) -> dict[str, str]:
        return environment_of(self.stack.home) | {"PULUMI_COLOR": "never", "NO_COLOR": "1"}

    def status(self) -> Json:
        status: Json = json.loads(self.cfrag("dims", "status", "--json"))
        return status

    def fault(self, **fault: Any) -> None:
        self.cloudflare.control("POST", "/__local/faults", {"worker": WORKER, **fault})

    def url(self, worker: str) -> str:
        return str(self.cloudflare.control("POST", "/__local/reserve", {"worker": worker})["url"])

    def write(self, documents: Iterable[Json]) -> None:
        """Ingest, asked again while the Worker is down."""
        for batch in _batches(list(documents), 100):
            self._call("/v1/ingest/batch", {"documents": batch})
            self.written |= {each["id"]: each for each in batch}

    def delete(self, ids: Iterable[str]) -> None:
        for each in _batches(list(ids), 100):
            self._call("/v1/docs/delete", {"ids": each})
            self.deleted |= set(each)
            self.written = {key: item for key, item in self.written.items() if key not in self.deleted}

    def _call(self, path: str, body: Json) -> None:
        service = Service(self.url(WORKER))
        end = time.monotonic() + 240
        while True:
            try:
                answer = service.call("POST", path, body)
            except httpx.TransportError:
                assert time.monotonic() < end, "the Worker is gone"
                time.sleep(0.2)
                continue
            results = answer.json().get("results", [])
            if answer.status_code == 200 and all(each["status"] != "failed" for each in results):
                return
            assert time.monotonic() < end, answer.text
            time.sleep(0.5)

    @property
    def database(self) -> str:
        found = list(
            self.cloudflare.client.d1.database.list(account_id=self.cloudflare.account, name="move-local-db")
        )
        assert found[0].uuid
        return found[0].uuid

    def age(self) -> None:
        """As if the replacement's last step had been long ago: every isolate knows of it by now."""
        path = "CASE WHEN json_extract(value, '$.other') IS NULL THEN '$.began' ELSE '$.other.began' END"
        self.sql(f"UPDATE meta SET value = json_set(value, {path}, 0) WHERE key = 'space'")

    @contextmanager
    def hurry(self) -> Iterator[None]:
        """Without the minutes in which isolates get to know of a step."""
        stop = threading.Event()

        def age() -> None:
            while not stop.wait(1):
                self.age()

        with ThreadPoolExecutor(1) as pool:
            aging = pool.submit(age)
            try:
                yield
            finally:
                stop.set()
            aging.result()

    def sql(self, sql: str) -> list[Any]:
        """The rows of one statement; the database restarts with the Worker, so it is asked again."""
        client = self.cloudflare.client.with_options(max_retries=8)
        (result,) = client.d1.database.query(self.database, account_id=self.cloudflare.account, sql=sql)
        return list(result.results or ())

    def takes_over(self) -> bool:
        """Whether searches are answered from the space that takes over."""
        sql = "SELECT value FROM meta WHERE key = 'space'"
        serving = json.loads(self.sql(sql)[0]["value"])["generation"]
        return bool(serving == self.rag["embedding"]["generation"])

    def vectors(self, index: str) -> dict[str, Json]:
        """Everything in an index, by id, values too."""
        client, account = self.cloudflare.client.vectorize.indexes, self.cloudflare.account
        ids: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = self.cloudflare.client.get(
                f"/accounts/{account}/vectorize/v2/indexes/{index}/list",
                cast_to=object,
                options={"params": {"count": "1000", **cursor}},
            )
            result: Any = page["result"]  # type: ignore[index]
            ids += [each["id"] for each in result["vectors"]]
            if not result["isTruncated"]:
                break
            cursor = {"cursor": result["nextCursor"]}
        found: dict[str, Json] = {}
        for each in _batches(ids, _GET_IDS):
            answer: Any = client.get_by_ids(index, account_id=account, ids=each)
            found |= {vector["id"]: vector for vector in answer}
        return found

    def embed(self, index: str, document: str, model: str) -> None:
        """Put a vector of another model in the place of a document's own."""
        vector = self.vectors(index)[document]
        answer: Any = self.cloudflare.client.ai.run(
            model, account_id=self.cloudflare.account, text=[vector["metadata"]["content"]]
        )
        self.upsert(index, vector | {"values": answer["data"][0]})

    def upsert(self, index: str, vector: Json) -> None:
        self.cloudflare.client.post(
            f"/accounts/{self.cloudflare.account}/vectorize/v2/indexes/{index}/upsert",
            cast_to=object,
            content=json.dumps(vector).encode(),
            options={"headers": {"Content-Type": "application/x-ndjson"}},
        )

    def rows(self) -> list[Any]:
        return self.sql("SELECT * FROM documents ORDER BY id")

    def indexes(self) -> list[str]:
        listed = self.cloudflare.client.vectorize.indexes.list(account_id=self.cloudflare.account)
        return sorted(str(each.name) for each in listed)

    def until(self, done: Callable[[], bool], seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, self.status()
            time.sleep(0.5)

    def deploy_twin(self) -> None:
        """A second isolate of the deployed version: its bundle and bindings under another name."""
        asyncio.run(self._deploy_twin())

    async def _deploy_twin(self) -> None:
        account, workers = self.cloudflare.account, self.cloudflare.client.workers
        found = self._twins()
        subdomain: Any = {"enabled": True, "previews_enabled": False}
        twin = (
            found[0]
            if found
            else workers.beta.workers.create(account_id=account, name=TWIN, subdomain=subdomain)
        )
        inputs = self._version_inputs()
        wanted = {
            "workerId": twin.id,
            "worker": TWIN,
            "bundle": inputs["bundle"],
            "bindings": inputs["bindings"],
        }
        _, version = await Direct(self.cloudflare).create("WorkerVersion", wanted)
        # It boots with its neighbour, which takes a while on a busy machine.
        self.cloudflare.client.with_options(timeout=240).workers.scripts.deployments.create(
            TWIN,
            account_id=account,
            strategy="percentage",
            versions=[{"percentage": 100, "version_id": version["versionId"]}],
        )

    def _twins(self) -> list[Any]:
        listed = self.cloudflare.client.workers.beta.workers.list(account_id=self.cloudflare.account)
        return [each for each in listed if each.name == TWIN]

    def retire_twin(self) -> None:
        for twin in self._twins():
            workers = self.cloudflare.client.with_options(timeout=240).workers.beta.workers
            workers.delete(twin.id, account_id=self.cloudflare.account)

    def _version_inputs(self) -> Json:
        state = json.loads(self.stack.run("stack", "export", "--show-secrets"))
        resources = state["deployment"]["resources"]
        inputs: Json = next(each["inputs"] for each in resources if each["urn"].endswith("::version"))
        if "plaintext" in inputs["bindings"]:
            inputs["bindings"] = json.loads(inputs["bindings"]["plaintext"])
        for binding in inputs["bindings"].values():
            if isinstance(binding.get("text"), dict):
                binding["text"] = json.loads(binding["text"]["plaintext"])
        return inputs


def _checked(command: list[str], environment: Mapping[str, str], fails: bool) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    output = done.stdout + done.stderr
    assert (done.returncode != 0) is fails, output
    assert "Traceback" not in output, output
    return done.stdout if "--json" in command else output


def _batches(items: list[Any], size: int) -> Iterable[list[Any]]:
    return (items[at : at + size] for at in range(0, len(items), size))
