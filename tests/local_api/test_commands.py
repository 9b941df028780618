"""`cfrag local …` as a person and a script use it."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cloudflare import Cloudflare

from tests.local_api.server import HELLO, ROOT, LocalServer, get, is_alive, wait_for


class Cfrag:
    """The command line, with a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("CFRAG_")}
        self.environment |= {"CFRAG_HOME": str(home), "COLUMNS": "200"}

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", "from cfrag.main import run; run()", "local", *arguments],
            cwd=ROOT,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        """Standard output, and standard error after it."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=90)
        assert process.returncode == code, out + err
        return out + err

    def json(self, *arguments: str, code: int = 0) -> dict[str, object]:
        value = json.loads(self.run(*arguments, "--json", code=code))
        assert isinstance(value, dict)
        return value

    @contextmanager
    def server(self) -> Iterator[LocalServer]:
        """The running server, for uploads."""
        server = LocalServer(self.home)
        server.info = json.loads((self.home / "local/local.json").read_text())
        try:
            yield server
        finally:
            server.close()


@pytest.fixture
def cfrag(tmp_path: Path) -> Iterator[Cfrag]:
    command = Cfrag(tmp_path / "home")
    yield command
    command.run("stop")


def test_start_is_ready_when_it_returns_and_can_be_repeated(cfrag: Cfrag) -> None:
    first = cfrag.json("start")
    info = json.loads((cfrag.home / "local/local.json").read_text())
    base_url = f"{first['url']}/client/v4"
    with Cloudflare(api_token=info["token"], base_url=base_url, max_retries=0) as client:
        assert client.user.tokens.verify()
    assert cfrag.json("start") == first
    said = cfrag.run("start", "--port", "9", code=2)
    assert f"it runs at {first['url']}, not at port 9" in said


def test_two_starts_at_once_make_one_server(cfrag: Cfrag) -> None:
    both = [cfrag.start("start", "--json") for _ in range(2)]
    outputs = [process.communicate(timeout=90) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert len({json.loads(out)["pid"] for out, _ in outputs}) == 1


def test_stop_ends_the_server_and_can_be_repeated(cfrag: Cfrag) -> None:
    pid = cfrag.json("start")["pid"]
    assert isinstance(pid, int)
    assert "stopped" in cfrag.run("stop")
    assert not is_alive(pid)
    assert "no local Cloudflare was running" in cfrag.run("stop")


def test_the_address_and_the_token_are_the_same_after_a_restart(cfrag: Cfrag) -> None:
    before = cfrag.json("start")["url"], cfrag.json("env")["CLOUDFLARE_API_TOKEN"]
    cfrag.run("stop")
    after = cfrag.json("start")["url"], cfrag.json("env")["CLOUDFLARE_API_TOKEN"]
    assert after == before


def test_what_only_its_owner_may_read_is_private(cfrag: Cfrag) -> None:
    cfrag.run("start")
    folder = cfrag.home / "local"
    modes = {name: (folder / name).stat().st_mode & 0o777 for name in ("local.json", "credentials.json")}
    assert modes == {"local.json": 0o600, "credentials.json": 0o600}
    assert (folder / "control.db").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_taken_port_is_named(cfrag: Cfrag, server: LocalServer) -> None:
    port = str(server.info["port"])
    said = cfrag.run("start", "--port", port, code=3)
    assert f"port {port}" in said
    assert "--port" in said


def test_status_shows_what_is_there(cfrag: Cfrag) -> None:
    assert cfrag.json("status", code=3) == {"running": False}
    cfrag.run("start")
    with cfrag.server() as server:
        url = server.run("shown", HELLO)
        client, account = server.client(), server.account
        config: Any = {"dimensions": 3, "metric": "cosine"}
        client.vectorize.indexes.create(account_id=account, name="an-index", config=config)
        client.queues.create(account_id=account, queue_name="a-queue")
    status = cfrag.json("status")
    assert status["indexes"] == [{"name": "an-index", "dimensions": 3, "metric": "cosine", "vectors": 0}]
    assert status["queues"] == [{"name": "a-queue", "backlog": 0, "consumer": None}]
    table = cfrag.run("status")
    for text in ("shown", url, "an-index", "a-queue", "running"):
        assert text in table


def test_env_lets_any_cloudflare_client_and_the_service_be_used(cfrag: Cfrag) -> None:
    assert "cfrag local start" in cfrag.run("env", code=3)
    cfrag.run("start")
    secret = {"type": "secret_text", "name": "INTERNAL_API_SECRET", "text": "the secret's $value"}
    with cfrag.server() as server:
        url = server.run("service", HELLO, [secret])
    exports = cfrag.run("env")
    script = (
        f'{exports}\n{shlex.quote(sys.executable)} -c "from cloudflare import Cloudflare; import os;'
        " print(Cloudflare().user.tokens.verify().status, os.environ['CFRAG_URL'])\"\n"
        'echo "$CFRAG_KEY"'
    )
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"active {url}", "the secret's $value"]


def test_env_asks_which_of_several_workers(cfrag: Cfrag) -> None:
    cfrag.run("start")
    with cfrag.server() as server:
        urls = {name: server.run(name, HELLO) for name in ("one", "two")}
    unclear = cfrag.run("env")
    assert "--worker" in unclear
    assert "CFRAG_URL=" not in unclear
    assert cfrag.json("env", "--worker", "two")["CFRAG_URL"] == urls["two"]
    assert "one, two" in cfrag.run("env", "--worker", "three", code=2)


def test_logs_are_those_of_the_worker_and_can_be_followed(cfrag: Cfrag) -> None:
    cfrag.run("start")
    source = "export default { fetch(r) { console.log('seen', r.url); return new Response('ok'); } };"
    with cfrag.server() as server:
        urls = {name: server.run(name, source) for name in ("chatty", "quiet")}
    get(f"{urls['chatty']}/first")
    log = cfrag.home / "local/logs/chatty.log"
    wait_for(lambda: log.exists() and "/first" in log.read_text(), lambda: "nothing was logged")
    assert "/first" in cfrag.run("logs", "chatty")
    follower = cfrag.start("logs", "chatty", "--follow", "-n", "0")
    assert follower.stdout
    with ThreadPoolExecutor(1) as pool:
        try:
            line = pool.submit(follower.stdout.readline)
            # It begins where the log ends, which is after an unknown time.
            wait_for(lambda: get(f"{urls['chatty']}/second").is_success and line.done(), lambda: "no line")
        finally:
            follower.kill()
            follower.communicate()
    assert "/second" in line.result()
    assert "chatty" in cfrag.run("logs", "nobody", code=2)
