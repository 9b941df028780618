"""What survives: a killed server, a killed Worker, messages under way."""

import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from local.cell_process import end_leftover
from tests.local_api.server import HELLO, LocalServer, get, is_alive, wait_for

CONSUMER = """export default {
  async fetch(request, env) {
    if (request.method === "POST") await env.JOBS.send(await request.json());
    const { results } = await env.DB.prepare("select body from seen order by body").all();
    return Response.json(results.map(({ body }) => body));
  },
  async queue(batch, env) {
    for (const message of batch.messages)
      await env.DB.prepare("insert or ignore into seen values (?)").bind(message.body.job).run();
  },
};"""


def cell(server: LocalServer, worker: str) -> dict[str, Any]:
    for state in server.control("GET", "/status")["processes"]:
        if worker in state["workers"]:
            return dict(state)
    raise AssertionError(f"{worker} has no process")


def consuming(server: LocalServer, consume: bool = True) -> str:
    """A Worker that sends to a queue, and writes what it consumes from it to its database."""
    client, account = server.client(), server.account
    database = client.d1.database.create(account_id=account, name="seen")
    assert database.uuid
    client.d1.database.query(
        database.uuid, account_id=account, sql="create table seen (body text primary key)"
    )
    queue = client.queues.create(account_id=account, queue_name="jobs")
    assert queue
    url = server.run(
        "consumer",
        CONSUMER,
        [
            {"type": "d1", "name": "DB", "id": database.uuid},
            {"type": "queue", "name": "JOBS", "queue_name": "jobs"},
        ],
    )
    if consume:
        consume_from(server, str(queue.queue_id))
    return url


def consume_from(server: LocalServer, queue_id: str) -> None:
    server.client().queues.consumers.create(
        queue_id,
        account_id=server.account,
        type="worker",
        script_name="consumer",
        settings={"batch_size": 10, "max_wait_time_ms": 0},
    )


def seen(url: str, *jobs: str) -> None:
    wait_for(lambda: get(url).json() == list(jobs), lambda: f"{get(url).text} is not {jobs}")


def test_everything_is_there_again_after_the_server_was_killed(own_server: LocalServer) -> None:
    client, account = own_server.client(), own_server.account
    database = client.d1.database.create(account_id=account, name="kept")
    assert database.uuid
    client.d1.database.query(database.uuid, account_id=account, sql="create table t as select 42 as n")
    source = """export default { async fetch(request, env) {
      return Response.json(await env.DB.prepare("select n from t").first());
    } };"""
    url = own_server.run("kept", source, [{"type": "d1", "name": "DB", "id": database.uuid}])
    client.vectorize.indexes.create(
        account_id=account, name="kept", config={"dimensions": 3, "metric": "cosine"}
    )
    before = dict(own_server.info)
    orphan = cell(own_server, "kept")["pid"]
    own_server.kill()
    wait_for(lambda: not is_alive(orphan), lambda: f"process {orphan} outlived the server")
    own_server.start()
    assert {**own_server.info, "pid": 0} == {**before, "pid": 0}
    assert get(url).json() == {"n": 42}
    assert [index.name for index in own_server.client().vectorize.indexes.list(account_id=account)] == [
        "kept"
    ]


def test_a_killed_worker_is_back_at_once_and_the_others_run_on(own_server: LocalServer) -> None:
    url, other = own_server.run("killed", HELLO), own_server.run("other", HELLO)
    before = cell(own_server, "other")["pid"]
    own_server.control("POST", "/kill", {"worker": "killed"})
    assert get(url, seconds=5).text == "hello from nobody"
    assert cell(own_server, "killed")["restarts"] == 1
    assert cell(own_server, "other")["pid"] == before
    assert get(other).text == "hello from nobody"


def test_two_processes_with_databases_write_at_the_same_time(own_server: LocalServer) -> None:
    source = """export default { async fetch(request, env) {
      await env.DB.prepare("insert into t values (1)").run();
      return Response.json(await env.DB.prepare("select count(*) as n from t").first());
    } };"""
    urls = []
    for name in ("left", "right"):
        database = own_server.client().d1.database.create(account_id=own_server.account, name=name)
        assert database.uuid
        own_server.client().d1.database.query(
            database.uuid, account_id=own_server.account, sql="create table t (n integer)"
        )
        urls.append(own_server.run(name, source, [{"type": "d1", "name": "DB", "id": database.uuid}]))
    assert cell(own_server, "left")["pid"] != cell(own_server, "right")["pid"]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(httpx.get, urls * 25))
    assert {answer.status_code for answer in answers} == {200}
    assert [get(url).json() for url in urls] == [{"n": 26}, {"n": 26}]


def test_deploys_of_workers_that_share_a_process_can_run_side_by_side(own_server: LocalServer) -> None:
    database = own_server.client().d1.database.create(account_id=own_server.account, name="common")
    binding = [{"type": "d1", "name": "DB", "id": database.uuid}]
    workers = [own_server.worker(f"parallel-{number}") for number in range(3)]
    versions = [own_server.upload(worker, HELLO, binding) for worker in workers]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(own_server.deploy, workers, versions))
    assert [get(own_server.address(worker)).text for worker in workers] == ["hello from nobody"] * 3
    assert len({cell(own_server, worker.name)["pid"] for worker in workers}) == 1


def test_stop_ends_every_process(own_server: LocalServer) -> None:
    url = own_server.run("stopped", HELLO)
    pid = cell(own_server, "stopped")["pid"]
    group = subprocess.run(["pgrep", "-g", str(pid)], capture_output=True, text=True, check=True)
    members = [int(line) for line in group.stdout.split()]
    assert len(members) > 1  # Node and workerd at least
    own_server.stop()
    assert own_server.process
    assert own_server.process.returncode == 0
    assert [member for member in members if is_alive(member)] == []
    assert not (own_server.home / "local/local.json").exists()
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_a_second_server_on_the_same_folder_is_refused(own_server: LocalServer) -> None:
    second = LocalServer(own_server.home)
    with pytest.raises(AssertionError, match="already runs"):
        second.start()
    assert own_server.raw("GET", "/__local/status").status_code == 200


def test_a_message_reaches_its_consumer(own_server: LocalServer) -> None:
    url = consuming(own_server)
    own_server.control("PUT", "/settings", {"queuesPaused": True})
    httpx.post(url, json={"job": "a"})
    assert own_server.control("GET", "/status")["queues"][0]["backlog"] == 1
    seen(url)
    own_server.control("PUT", "/settings", {"queuesPaused": False})
    seen(url, "a")
    queue = own_server.client().queues.list(account_id=own_server.account).result[0]
    assert [producer.to_dict() for producer in queue.producers or []] == [
        {"type": "worker", "script": "consumer"}
    ]


def test_messages_wait_for_a_consumer_over_a_restart(own_server: LocalServer) -> None:
    url = consuming(own_server, consume=False)
    httpx.post(url, json={"job": "waiting"})
    (queue,) = own_server.control("GET", "/status")["queues"]
    assert queue == {"name": "jobs", "backlog": 1, "consumer": None}
    own_server.kill()
    own_server.start()
    (queue_id,) = [
        str(queue.queue_id) for queue in own_server.client().queues.list(account_id=own_server.account)
    ]
    consume_from(own_server, queue_id)
    seen(url, "waiting")


def test_a_consumer_can_not_be_deleted(own_server: LocalServer) -> None:
    consuming(own_server)
    answer = own_server.api("DELETE", "/workers/workers/consumer")
    assert answer.status_code == 400
    assert "jobs" in answer.json()["errors"][0]["message"]


def test_a_worker_killed_between_two_writes_leaves_the_first_one(own_server: LocalServer) -> None:
    client, account = own_server.client(), own_server.account
    database = client.d1.database.create(account_id=account, name="half")
    assert database.uuid
    client.d1.database.query(database.uuid, account_id=account, sql="create table t (n integer)")
    source = """export default { async fetch(request, env) {
      const add = (n) => env.DB.prepare("insert into t values (?)").bind(n).run();
      if (request.method === "POST") { await add(1); await add(2); }
      return Response.json((await env.DB.prepare("select n from t").all()).results);
    } };"""
    url = own_server.run("half", source, [{"type": "d1", "name": "DB", "id": database.uuid}])
    own_server.control("POST", "/faults", {"target": "d1", "action": "kill-after", "calls": 1})
    with pytest.raises(httpx.HTTPError):
        httpx.post(url, timeout=10)
    assert get(url).json() == [{"n": 1}]
    httpx.post(url, timeout=10)
    assert get(url).json() == [{"n": 1}, {"n": 1}, {"n": 2}]


def test_d1_calls_of_a_worker_are_counted_once_counting_was_asked_for(own_server: LocalServer) -> None:
    url = consuming(own_server)
    own_server.control("POST", "/calls/reset")
    for _ in range(3):
        get(url)
    assert sum(own_server.control("GET", "/calls")["d1"].values()) == 3


def test_settings_outlive_a_restart(own_server: LocalServer) -> None:
    own_server.control("PUT", "/settings", {"vectorizeDelaySeconds": 7.5})
    own_server.stop()
    own_server.start()
    assert own_server.control("GET", "/settings")["vectorizeDelaySeconds"] == 7.5


@pytest.mark.parametrize(
    "body", [{"unknown": 1}, {"vectorizeDelaySeconds": "x"}, {"vectorizeDelaySeconds": -1}]
)
def test_a_wrong_setting_changes_nothing(server: LocalServer, body: dict[str, Any]) -> None:
    before = server.control("GET", "/settings")
    assert server.raw("PUT", "/__local/settings", json=body).status_code == 400
    assert server.control("GET", "/settings") == before


def test_a_foreign_process_with_a_remembered_pid_is_left_alone(tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        (tmp_path / "cell.pid").write_text(str(bystander.pid))
        end_leftover(tmp_path / "cell.pid", str(tmp_path))
        assert bystander.poll() is None
        assert not (tmp_path / "cell.pid").exists()
    finally:
        bystander.send_signal(signal.SIGKILL)
        bystander.wait()
