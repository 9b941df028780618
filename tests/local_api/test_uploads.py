"""What an upload of a version may hold, and what is refused before anything is stored."""

import base64
import os
from typing import Any

import pytest
from cloudflare import APIStatusError, BadRequestError, NotFoundError

from infra.catalog import WORKER_ENV_VAR_BYTES, WORKER_ENV_VARS
from tests.local_api.server import HELLO, JsonObject, LocalServer, module


def variable(name: str, text: str = "x") -> JsonObject:
    return {"type": "plain_text", "name": name, "text": text}


def upload(server: LocalServer, worker: str, **changes: Any) -> Any:
    body = {"main_module": "main.mjs", "modules": [module("main.mjs", HELLO)], "bindings": [], **changes}
    return server.api("POST", f"/workers/workers/{worker}/versions", json=body)


def refusal(answer: Any) -> str:
    assert answer.status_code in (400, 404, 413), answer.text
    return str(answer.json()["errors"][0]["message"])


@pytest.fixture(scope="module", autouse=True)
def worker(server: LocalServer) -> str:
    return server.worker("uploads").name


def test_versions_are_numbered_and_listed_newest_first(server: LocalServer) -> None:
    made = server.worker("numbered")
    ids = [server.upload(made, HELLO, []) for _ in range(3)]
    beta = server.client().workers.beta.workers
    listed = list(beta.versions.list(made.id, account_id=server.account, per_page=2))
    assert [(version.id, version.number) for version in listed] == list(
        zip(ids[::-1], (3, 2, 1), strict=True)
    )
    assert beta.versions.get("latest", account_id=server.account, worker_id=made.id).id == ids[-1]


def test_a_version_gives_its_modules_back_on_request(server: LocalServer) -> None:
    content = os.urandom(1000)
    data = {
        "name": "data.bin",
        "content_type": "application/octet-stream",
        "content_base64": base64.b64encode(content).decode(),
    }
    made = upload(server, "uploads", modules=[module("main.mjs", HELLO), data]).json()["result"]
    assert "modules" not in made
    beta = server.client().workers.beta.workers
    got = beta.versions.get(made["id"], account_id=server.account, worker_id="uploads", include="modules")
    assert got.modules
    assert {one.name: base64.b64decode(one.content_base64) for one in got.modules} == {
        "main.mjs": HELLO.encode(),
        "data.bin": content,
    }


def test_annotations_and_runtime_settings_are_echoed(server: LocalServer) -> None:
    sent = {
        "annotations": {"workers/message": "a message", "workers/tag": "v1"},
        "compatibility_date": "2026-04-01",
        "compatibility_flags": ["nodejs_compat"],
        "limits": {"cpu_ms": 1000},
    }
    made = upload(server, "uploads", **sent).json()["result"]
    assert {key: made[key] for key in sent} == sent


def test_a_secret_is_never_shown(server: LocalServer) -> None:
    secret = {"type": "secret_text", "name": "KEY", "text": "very-secret"}
    made = upload(server, "uploads", bindings=[secret])
    assert made.json()["result"]["bindings"] == [{"type": "secret_text", "name": "KEY"}]
    everything = server.api("GET", "/workers/workers/uploads/versions").text
    assert "very-secret" not in made.text + everything


def test_inherit_takes_the_value_of_the_version_before(server: LocalServer) -> None:
    made = server.worker("inherits")
    server.upload(made, HELLO, [{"type": "secret_text", "name": "WHO", "text": "heir"}])
    version = server.upload(made, HELLO, [{"type": "inherit", "name": "WHO"}])
    shown = server.client().workers.beta.workers.versions.get(
        version, account_id=server.account, worker_id=made.id
    )
    assert [(binding.name, binding.type) for binding in shown.bindings or []] == [("WHO", "secret_text")]


def test_what_no_version_has_can_not_be_inherited(server: LocalServer) -> None:
    made = server.worker("disinherited")
    with pytest.raises(BadRequestError, match="GONE can't be inherited"):
        server.upload(made, HELLO, [{"type": "inherit", "name": "GONE"}])


@pytest.mark.parametrize(
    ("binding", "said"),
    [
        ({"type": "d1", "name": "X", "id": "c2e5b7ac-0000-4000-8000-000000000000"}, "references database"),
        ({"type": "vectorize", "name": "X", "index_name": "nowhere"}, "references index 'nowhere'"),
        ({"type": "queue", "name": "X", "queue_name": "nowhere"}, "references queue 'nowhere'"),
        ({"type": "service", "name": "X", "service": "nowhere"}, "references Worker 'nowhere'"),
        ({"type": "d1", "name": "X"}, "needs a valid `id`"),
        ({"type": "plain_text", "name": "X", "text": 5}, "needs a valid `text`"),
        ({"type": "plain_text", "text": "x"}, "has no name"),
        ({"name": "X"}, "`type`"),
        ("X", "`type`"),
    ],
)
def test_a_binding_must_be_whole_and_its_target_exist(
    server: LocalServer, binding: JsonObject, said: str
) -> None:
    assert said in refusal(upload(server, "uploads", bindings=[binding]))


def test_two_bindings_can_not_share_a_name(server: LocalServer) -> None:
    assert "two bindings named A" in refusal(upload(server, "uploads", bindings=[variable("A")] * 2))


def test_64_variables_are_allowed_and_65_are_not(server: LocalServer) -> None:
    fits = [variable(f"V{number}") for number in range(WORKER_ENV_VARS.value)]
    assert upload(server, "uploads", bindings=fits).status_code == 200
    assert "65" in refusal(upload(server, "uploads", bindings=[*fits, variable("ONE_MORE")]))


def test_a_variable_is_measured_in_bytes(server: LocalServer) -> None:
    limit = WORKER_ENV_VAR_BYTES.value
    assert upload(server, "uploads", bindings=[variable("V", "x" * limit)]).status_code == 200
    too_long = upload(server, "uploads", bindings=[variable("V", "é" * (limit // 2) + "x")])
    assert "The variable V" in refusal(too_long)


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../up.mjs", "a/../../up.mjs", "a//b.mjs", "./a.mjs", "a\\b.mjs", "a/"]
)
def test_a_module_name_stays_in_its_folder(server: LocalServer, name: str) -> None:
    modules = [module("main.mjs", HELLO), module(name, "x")]
    assert "can't be the name of a module" in refusal(upload(server, "uploads", modules=modules))


@pytest.mark.parametrize("main", ["other.mjs", "", None])
def test_the_main_module_must_be_there(server: LocalServer, main: str | None) -> None:
    assert "No such module" in refusal(upload(server, "uploads", main_module=main))


def test_a_module_type_must_be_known(server: LocalServer) -> None:
    odd = module("a.xyz", "x") | {"content_type": "text/odd"}
    assert "text/odd" in refusal(upload(server, "uploads", modules=[module("main.mjs", HELLO), odd]))


def test_a_bundle_over_the_gzip_limit_is_refused(server: LocalServer) -> None:
    noise = base64.b64encode(os.urandom(3_300_000)).decode()
    blob = {"name": "noise.bin", "content_type": "application/octet-stream", "content_base64": noise}
    refused = upload(server, "uploads", modules=[module("main.mjs", HELLO), blob])
    assert refused.json()["errors"][0]["code"] == 10027
    assert "gzipped" in refusal(refused)


def test_metadata_over_a_megabyte_is_refused(server: LocalServer) -> None:
    big = {"type": "json", "name": "J", "json": "x" * 1_000_001}
    assert "metadata of the upload" in refusal(upload(server, "uploads", bindings=[big]))


def test_a_refused_upload_makes_no_version(server: LocalServer) -> None:
    made = server.worker("untouched")
    with pytest.raises(APIStatusError):
        server.upload(made, HELLO, [{"type": "vectorize", "name": "V", "index_name": "nowhere"}])
    beta = server.client().workers.beta.workers
    assert list(beta.versions.list(made.id, account_id=server.account)) == []


def test_the_active_version_can_not_be_deleted_and_others_can(server: LocalServer) -> None:
    made = server.worker("deletes")
    old, active = (server.upload(made, HELLO, []) for _ in range(2))
    server.deploy(made, active)
    versions = server.client().workers.beta.workers.versions
    with pytest.raises(BadRequestError, match="is deployed"):
        versions.delete(active, account_id=server.account, worker_id=made.id)
    versions.delete(old, account_id=server.account, worker_id=made.id)
    with pytest.raises(NotFoundError):
        versions.get(old, account_id=server.account, worker_id=made.id)


def test_modules_are_kept_while_a_version_has_them_and_no_longer(own_server: LocalServer) -> None:
    first, second = own_server.worker("first"), own_server.worker("second")
    for worker in (first, second):
        own_server.upload(worker, {"main.mjs": HELLO, "own.mjs": f"// {worker.name}"}, [])
    blobs = own_server.home / "local/modules"
    assert len(list(blobs.iterdir())) == 3
    beta = own_server.client().workers.beta.workers
    beta.delete("first", account_id=own_server.account)
    assert len(list(blobs.iterdir())) == 2
    beta.delete("second", account_id=own_server.account)
    assert list(blobs.iterdir()) == []
