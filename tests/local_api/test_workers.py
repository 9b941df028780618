"""A Worker from creation to its answer, through the official SDK."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from cloudflare import APIStatusError, BadRequestError, ConflictError, NotFoundError

from tests.local_api.server import HELLO, JsonObject, LocalServer, get

PYTHON = """from workers import Response, WorkerEntrypoint

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        row = await self.env.DB.prepare("select ? as said").bind(self.env.WHO).first()
        return Response("python says " + row["said"])
"""


def test_a_javascript_worker_answers_at_its_address(server: LocalServer) -> None:
    url = server.run("js", HELLO, [{"type": "plain_text", "name": "WHO", "text": "js"}])
    assert get(url).text == "hello from js"


def test_the_address_is_known_before_the_worker_and_stays(server: LocalServer) -> None:
    reserved = server.control("POST", "/reserve", {"worker": "early"})["url"]
    assert server.run("early", HELLO) == reserved
    worker = server.client().workers.beta.workers.get("early", account_id=server.account)
    assert worker.subdomain.url == reserved


def test_several_modules_import_each_other(server: LocalServer) -> None:
    main = 'import { who } from "./lib/who.mjs"; export default { fetch: () => new Response(who) };'
    url = server.run("modules", {"main.mjs": main, "lib/who.mjs": 'export const who = "lib";'})
    assert get(url).text == "lib"


def test_a_new_version_takes_over_and_the_old_one_can_return(server: LocalServer) -> None:
    worker = server.worker("turns")
    versions = [
        server.upload(worker, HELLO, [{"type": "plain_text", "name": "WHO", "text": who}]) for who in "ab"
    ]
    for version, said in zip([*versions, versions[0]], "aba", strict=True):
        server.deploy(worker, version)
        assert get(server.address(worker)).text == f"hello from {said}"


def test_the_version_with_the_largest_share_runs(server: LocalServer) -> None:
    worker = server.worker("shares")
    small, large = (
        server.upload(worker, HELLO, [{"type": "plain_text", "name": "WHO", "text": who}])
        for who in ("small", "large")
    )
    deployment = server.client().workers.scripts.deployments.create(
        "shares",
        account_id=server.account,
        strategy="percentage",
        versions=[{"percentage": 10, "version_id": small}, {"percentage": 90, "version_id": large}],
    )
    assert [version.percentage for version in deployment.versions] == [10, 90]
    assert get(server.address(worker)).text == "hello from large"


@pytest.mark.parametrize("shares", [[], [50], [60, 60], [50, 25, 25]])
def test_a_deployment_must_add_up(server: LocalServer, shares: list[int]) -> None:
    worker = server.worker(f"adds-{len(shares)}-{sum(shares)}")
    versions = [{"percentage": share, "version_id": server.upload(worker, HELLO, [])} for share in shares]
    body = {"strategy": "percentage", "versions": versions}
    assert server.api("POST", f"/workers/scripts/{worker.name}/deployments", json=body).status_code == 400


def test_a_deployment_of_an_unknown_version_is_a_404(server: LocalServer) -> None:
    worker = server.worker("unknown-version")
    with pytest.raises(NotFoundError):
        server.deploy(worker, "c2e5b7ac-0000-4000-8000-000000000000")


def test_deployments_are_listed_newest_first(server: LocalServer) -> None:
    worker = server.worker("listed")
    versions = [server.upload(worker, HELLO, []) for _ in range(2)]
    for version in versions:
        server.deploy(worker, version)
    listed = server.api("GET", "/workers/scripts/listed/deployments").json()["result"]["deployments"]
    assert [one["versions"][0]["version_id"] for one in listed] == versions[::-1]
    got = server.client().workers.scripts.deployments.get(
        listed[0]["id"], account_id=server.account, script_name="listed"
    )
    assert got.versions[0].version_id == versions[1]
    active = server.api("DELETE", f"/workers/scripts/listed/deployments/{listed[0]['id']}")
    assert active.status_code == 400


def test_a_python_worker_answers_with_its_database(server: LocalServer) -> None:
    database = server.client().d1.database.create(account_id=server.account, name="python")
    bindings: list[JsonObject] = [
        {"type": "d1", "name": "DB", "id": database.uuid},
        {"type": "plain_text", "name": "WHO", "text": "hello"},
    ]
    modules = {"entry.py": PYTHON, **runtime_sdk()}
    assert get(server.run("python", modules, bindings)).text == "python says hello"


def runtime_sdk() -> dict[str, str]:
    """The vendored package that every Python Worker uploads, from where the tests have it."""
    spec = importlib.util.find_spec("workers")
    assert spec
    assert spec.origin
    folder = Path(spec.origin).parent
    return {
        f"python_modules/workers/{path.relative_to(folder).as_posix()}": path.read_text()
        for path in sorted(folder.rglob("*.py"))
    }


def test_two_workers_run_side_by_side(server: LocalServer) -> None:
    urls = {
        who: server.run(f"side-{who}", HELLO, [{"type": "plain_text", "name": "WHO", "text": who}])
        for who in ("left", "right")
    }
    assert {who: get(url).text for who, url in urls.items()} == {
        "left": "hello from left",
        "right": "hello from right",
    }


def test_a_deploy_leaves_the_processes_of_others_alone(server: LocalServer) -> None:
    server.run("bystander", HELLO)
    before = processes(server)["bystander"]
    server.run("newcomer", HELLO)
    assert processes(server)["bystander"] == before


def test_workers_that_share_a_database_see_one_another(server: LocalServer) -> None:
    database = server.client().d1.database.create(account_id=server.account, name="shared")
    assert database.uuid
    server.client().d1.database.query(
        database.uuid, account_id=server.account, sql="create table t (n integer)"
    )
    source = """export default { async fetch(request, env) {
      await env.DB.prepare("insert into t values (1)").run();
      return Response.json(await env.DB.prepare("select count(*) as n from t").first());
    } };"""
    binding = [{"type": "d1", "name": "DB", "id": database.uuid}]
    urls = [server.run(f"sharing-{number}", source, binding) for number in range(2)]
    assert [get(url).json() for url in urls] == [{"n": 1}, {"n": 2}]
    rest = server.client().d1.database.query(
        database.uuid, account_id=server.account, sql="select count(*) as n from t"
    )
    assert rest.result[0].results == [{"n": 2}]
    assert processes(server)["sharing-0"] == processes(server)["sharing-1"]


def test_a_service_binding_calls_the_other_worker(server: LocalServer) -> None:
    server.run("callee", HELLO, [{"type": "plain_text", "name": "WHO", "text": "callee"}])
    caller = "export default { fetch: (request, env) => env.OTHER.fetch(request) };"
    service = {"type": "service", "name": "OTHER", "service": "callee", "environment": "production"}
    assert get(server.run("caller", caller, [service])).text == "hello from callee"
    with pytest.raises(BadRequestError, match="bound as a service by caller"):
        server.client().workers.beta.workers.delete("callee", account_id=server.account)


def test_a_worker_without_an_enabled_subdomain_has_no_public_address(server: LocalServer) -> None:
    worker = server.client().workers.beta.workers.create(account_id=server.account, name="hidden")
    server.deploy(worker, server.upload(worker, HELLO, []))
    with pytest.raises(AssertionError, match="nothing answers"):
        get(server.address(worker), seconds=0.5)
    server.client().workers.scripts.subdomain.create(
        "hidden", account_id=server.account, enabled=True, previews_enabled=False
    )
    assert get(server.address(worker)).text == "hello from nobody"


def test_code_that_does_not_start_is_refused_and_what_ran_runs_on(server: LocalServer) -> None:
    worker = server.worker("breaks")
    server.deploy(worker, server.upload(worker, HELLO, []))
    broken = server.upload(worker, "throw new Error('boom at start'); export default {};", [])
    with pytest.raises(BadRequestError, match="boom at start"):
        server.deploy(worker, broken)
    assert get(server.address(worker)).text == "hello from nobody"


def test_python_that_does_not_import_is_refused(server: LocalServer) -> None:
    worker = server.worker("imports")
    version = server.upload(worker, {"entry.py": "import nothing_like_this", **runtime_sdk()}, [])
    with pytest.raises(BadRequestError, match="nothing_like_this"):
        server.deploy(worker, version)


def test_deleting_a_worker_frees_its_name_and_ends_its_process(server: LocalServer) -> None:
    url = server.run("gone", HELLO)
    server.client().workers.beta.workers.delete("gone", account_id=server.account)
    assert "gone" not in processes(server)
    with pytest.raises(NotFoundError, match="10007"):
        server.client().workers.beta.workers.get("gone", account_id=server.account)
    assert server.run("gone", HELLO) == url


def test_a_name_is_taken_once(server: LocalServer) -> None:
    server.worker("once")
    with pytest.raises(ConflictError, match="already exists"):
        server.worker("once")


@pytest.mark.parametrize("name", ["", "Upper", "dots.in", "-first", "x" * 64, None])
def test_a_bad_name_is_refused(server: LocalServer, name: Any) -> None:
    assert server.api("POST", "/workers/workers", json={"name": name}).status_code == 400


def test_a_worker_echoes_its_settings(server: LocalServer) -> None:
    settings: dict[str, Any] = {
        "logpush": False,
        "observability": {"enabled": True, "head_sampling_rate": 0.5},
        "subdomain": {"enabled": True, "previews_enabled": False},
        "tags": ["a", "b"],
        "tail_consumers": [{"name": "tail"}],
    }
    beta = server.client().workers.beta.workers
    made = beta.create(account_id=server.account, name="echo", **settings)
    got = beta.get(made.id, account_id=server.account).to_dict()
    assert {key: got[key] for key in settings if key != "subdomain"} == {
        key: value for key, value in settings.items() if key != "subdomain"
    }
    assert got["subdomain"] == settings["subdomain"] | {"url": server.address(made)}
    beta.update(made.id, account_id=server.account, name="echo")
    replaced = beta.get(made.id, account_id=server.account)
    assert (replaced.tags, replaced.observability.enabled) == ([], False)


def test_unsupported_bindings_are_named(server: LocalServer) -> None:
    worker = server.worker("unsupported")
    with pytest.raises(APIStatusError, match="kv_namespace"):
        server.upload(worker, HELLO, [{"type": "kv_namespace", "name": "KV", "namespace_id": "x"}])


def test_the_scripts_api_uploads_and_deploys_a_form(server: LocalServer) -> None:
    metadata = {"main_module": "main.mjs", "compatibility_date": "2026-04-01", "bindings": []}
    answer = server.api(
        "PUT",
        "/workers/scripts/form",
        files={
            "metadata": (None, json.dumps(metadata), "application/json"),
            "main.mjs": ("main.mjs", HELLO, "application/javascript+module"),
        },
    )
    assert answer.status_code == 200, answer.text
    enabled = {"enabled": True, "previews_enabled": False}
    assert server.api("POST", "/workers/scripts/form/subdomain", json=enabled).json()["result"] == enabled
    url = server.control("POST", "/reserve", {"worker": "form"})["url"]
    assert get(url).text == "hello from nobody"


def test_what_wrangler_asks_around_a_deploy_has_an_answer(server: LocalServer) -> None:
    missing = server.api("GET", "/workers/services/by-wrangler")
    assert (missing.status_code, missing.json()["errors"][0]["code"]) == (404, 10090)
    worker = server.worker("by-wrangler")
    tags = ["cf:service=by-wrangler"]
    edited = server.api("PATCH", "/workers/scripts/by-wrangler/script-settings", json={"tags": tags})
    assert edited.json()["result"]["tags"] == tags
    service = server.api("GET", "/workers/services/by-wrangler").json()["result"]
    assert service["default_environment"]["environment"] == "production"
    assert service["default_environment"]["script"]["tag"] == worker.id
    assert server.api("DELETE", "/workers/services/by-wrangler?force=true").status_code == 200
    assert server.api("GET", "/workers/services/by-wrangler").status_code == 404


def test_the_sdk_uploads_a_version_as_a_form(server: LocalServer) -> None:
    worker = server.worker("sdk-form")
    # The SDK's model of the answer can't be built (its `ResourcesBindings` is no model): read it raw.
    answer = server.client().workers.scripts.versions.with_raw_response.create(
        "sdk-form",
        account_id=server.account,
        metadata={
            "main_module": "main.mjs",
            "bindings": [{"type": "plain_text", "name": "WHO", "text": "f"}],
        },
        files=[("main.mjs", HELLO.encode(), "application/javascript+module")],
    )
    made = answer.http_response.json()["result"]["id"]
    server.deploy(worker, made)
    assert get(server.address(worker)).text == "hello from f"
    listed = server.client().workers.scripts.versions.list("sdk-form", account_id=server.account)
    assert [version.id for version in listed] == [made]


def test_a_secret_put_by_itself_reaches_the_worker_and_is_never_shown(server: LocalServer) -> None:
    url = server.run("secretive", HELLO)
    secrets = server.client().workers.scripts.secrets
    secrets.update("secretive", account_id=server.account, name="WHO", text="shh", type="secret_text")
    assert get(url).text == "hello from shh"
    assert "shh" not in server.api("GET", "/workers/scripts/secretive/settings").text
    assert [secret.name for secret in secrets.list("secretive", account_id=server.account)] == ["WHO"]
    secrets.delete("WHO", account_id=server.account, script_name="secretive")
    assert get(url).text == "hello from nobody"


def processes(server: LocalServer) -> dict[str, int]:
    """The pid of the process that runs each Worker."""
    states = server.control("GET", "/status")["processes"]
    return {name: state["pid"] for state in states for name in state["workers"]}
