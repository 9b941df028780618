"""Python Workers: runtime, imports, requests, streams, logs."""

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.workerd.support import PATIENCE, Cell, Shop, StartCell, packages, probe, worker, write


def test_first_requests_that_come_at_once_are_all_answered(cell: Cell) -> None:
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: cell.get("probe", "/health"), range(50)))
    assert answers == [{"ok": True}] * 50


def test_python_is_the_version_that_cloudflare_runs_and_own_modules_go_first(cell: Cell) -> None:
    runtime = cell.get("probe", "/runtime")
    assert (runtime["version"], runtime["platform"], runtime["origin"]) == ("3.14", "emscripten", "own")
    assert runtime["path"][1] == runtime["path"][0] + "/python_modules"


def test_variables_secrets_and_metadata_are_in_env_and_nothing_of_the_host_is(cell: Cell) -> None:
    env = cell.get("probe", "/env")
    assert env["names"] == sorted(
        ["AI", "DB", "LIMIT", "QUEUE", "SECRET", "SETTINGS", "TEXT", "VECTORIZE", "VERSION"]
    )
    assert env["json"] == {"deep": [1, {"a": None}]}
    assert (env["text"], env["module"], env["version"]) == ("a text", "a text", "version-of-probe")


def test_fifty_requests_are_served_side_by_side(cell: Cell) -> None:
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: cell.get("probe", "/meet?people=50"), range(50)))
    assert answers == ["met"] * 50


def test_events_arrive_while_the_stream_is_open(cell: Cell) -> None:
    arrivals = []
    with httpx.stream("GET", cell.url("probe") + "/stream", timeout=PATIENCE) as response:
        assert response.headers["content-type"] == "text/event-stream"
        for line in response.iter_lines():
            if line:
                arrivals.append((line, time.monotonic()))
    assert [line for line, _ in arrivals] == ["data: 0", "data: 1", "data: 2"]
    assert arrivals[2][1] - arrivals[0][1] > 0.1


@pytest.mark.parametrize("how", ["ctx", "module"])
def test_wait_until_goes_on_after_the_answer(cell: Cell, how: str) -> None:
    assert cell.get("probe", f"/later?how={how}&key={how}") == "answered"
    assert cell.sql("SELECT key FROM later WHERE key = ?", how) == []
    cell.sql("INSERT INTO later (key) VALUES (?)", f"go {how}")
    deadline = time.monotonic() + 20
    while cell.sql("SELECT key FROM later WHERE key = ?", how) != [{"key": how}]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_client_that_leaves_during_a_request_does_no_harm(cell: Cell) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(cell.url("probe") + "/sleep?ms=1000", timeout=0.2)
    assert cell.get("probe", "/health") == {"ok": True}


def test_client_address_is_never_what_the_client_says(cell: Cell) -> None:
    headers = {"cf-connecting-ip": "203.0.113.7"}
    assert httpx.get(cell.url("probe") + "/client", headers=headers, timeout=PATIENCE).json() == "127.0.0.1"


def test_rate_limit_counts_per_key(cell: Cell) -> None:
    answers = [cell.get("probe", f"/limit?key={key}")["success"] for key in ("a", "a", "a", "b")]
    assert answers == [True, True, False, True]


def test_exception_in_fetch_is_a_500_with_the_traceback_in_the_log(cell: Cell) -> None:
    response = httpx.get(cell.url("probe") + "/fail", timeout=PATIENCE)
    assert response.status_code == 500
    assert "ValueError: the route fails" in response.text
    entry = cell.logged("the route fails")
    assert (entry["worker"], entry["level"]) == ("probe", "error")
    assert "entry.py" in entry["message"]


def test_prints_and_tracebacks_are_log_lines_of_the_worker(cell: Cell) -> None:
    cell.get("probe", "/print")
    assert cell.logged("printed to stdout") == {
        "worker": "probe",
        "level": "log",
        "message": "printed to stdout",
    }
    assert cell.logged("printed to stderr")["level"] == "warn"
    assert cell.logged("ValueError: seen and logged")["worker"] == "probe"


@pytest.fixture(scope="module")
def boots(start_cell: StartCell, shop: Shop) -> Cell:
    """Workers that have not been asked anything yet."""
    broken = shop.written("broken", "import no_such_package\n")
    classless = shop.written("classless", "from workers import WorkerEntrypoint\n")
    warmed = shop.written("warmed", "print('imported without a request')\n")
    return start_cell(probe(shop, "abandoned"), warmed, broken, classless)


def test_client_that_leaves_during_the_boot_does_not_stop_it(boots: Cell) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(boots.url("abandoned") + "/health", timeout=0.1)
    assert boots.get("abandoned", "/health") == {"ok": True}


def test_warm_boots_python_before_the_first_request(boots: Cell) -> None:
    assert boots.control("POST", "/warm", {"worker": "warmed"}).json() == {"ok": True}
    assert boots.logged("imported without a request")["worker"] == "warmed"


def test_bundle_that_does_not_import_answers_500_and_says_why(boots: Cell) -> None:
    for _ in range(2):
        response = httpx.get(boots.url("broken"), timeout=PATIENCE)
        assert response.status_code == 500
        assert "No module named 'no_such_package'" in response.text
    assert "entry.py" in boots.logged("No module named 'no_such_package'")["message"]
    warm = boots.control("POST", "/warm", {"worker": "broken"})
    assert warm.status_code == 500
    assert "no_such_package" in warm.json()["error"]["message"]


def test_class_that_is_missing_is_named(boots: Cell) -> None:
    response = httpx.get(boots.url("classless"), timeout=PATIENCE)
    assert response.status_code == 500
    assert "There is no 'Default' class" in response.text


FASTAPI = """
from fastapi import FastAPI
from pydantic import BaseModel, Field
from workers import WorkerEntrypoint, asgi

app = FastAPI()


class Question(BaseModel):
    text: str = Field(min_length=1)


@app.post("/ask")
def ask(question: Question) -> dict[str, str]:
    return {"echo": question.text}


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return await asgi.fetch(app, request, self.env, self.ctx)
"""


def test_fastapi_runs_with_its_compiled_packages_and_synchronous_routes(
    start_cell: StartCell, shop: Shop
) -> None:
    bundle = write(shop.folder / "fastapi", packages())
    (bundle / "entry.py").write_text(FASTAPI)
    cell = start_cell(worker("fastapi", bundle, "entry.py", []))
    assert cell.post("fastapi", "/ask", {"text": "hello"}) == {"echo": "hello"}
    assert httpx.post(cell.url("fastapi") + "/ask", json={"text": ""}, timeout=PATIENCE).status_code == 422
