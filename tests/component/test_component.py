"""`RagStack` in somebody else's Pulumi program: from the installed package, by the real CLI."""

import json
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from cfrag.pulumi_env import ROOT, pulumi_env
from tests.provider.support import LocalCloudflare, plugin_home
from tests.stack.checkout import SECRET, backend

pytestmark = pytest.mark.xdist_group("component")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@dataclass(frozen=True)
class Shop:
    """The example's program beside an installed package, and its stack `test`."""

    folder: Path
    environment: dict[str, str]

    def pulumi(self, *arguments: str, fails: bool = False) -> str:
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive", "--color", "never"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        output = done.stdout + done.stderr
        assert (done.returncode != 0) is fails, output
        assert "Traceback" not in output, output
        return output


@pytest.fixture(scope="module")
def shop(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The package without the checkout that it was built from; only the dependencies are this project's."""
    site: Path = tmp_path_factory.mktemp("site")
    uv = Path(sys.executable).with_name("uv")
    install = [uv, "pip", "install", "--quiet", "--no-deps", "--target", site, wheel]
    subprocess.run([*map(str, install)], check=True)
    folder = Path(shutil.copytree(ROOT / "examples/component", site / "examples/component"))
    running = LocalCloudflare.start(tmp_path_factory.mktemp("cloudflare"), port())
    try:
        running.control("PUT", "/__local/settings", {"vectorizeDelaySeconds": 0})
        yield _configured(folder, site, running, plugin_home(tmp_path_factory.mktemp("plugins"), running))
    finally:
        running.stop()


def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _configured(folder: Path, site: Path, cloudflare: LocalCloudflare, plugins: Path) -> Shop:
    environment = pulumi_env(plugins, cloudflare.api)
    for name in ("PULUMI_CONFIG_PASSPHRASE_FILE", "PULUMI_OPTION_CONFIG_FILE"):
        environment.pop(name, None)
    home = site / ".cfrag"
    home.mkdir()
    (home / "cache").symlink_to(ROOT / ".cfrag/cache", target_is_directory=True)
    shop = Shop(
        folder,
        environment
        | {
            "CFRAG_HOME": str(home),
            "PULUMI_BACKEND_URL": backend(folder / "state"),
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PYTHONPATH": str(site),
        },
    )
    shop.pulumi("stack", "init", "test")
    plain = ["--plaintext", f"shop:accountId={cloudflare.account}", "--plaintext", "shop:allowDataLoss=true"]
    secret = [f"cloudflare:apiToken={cloudflare.token}", f"shop:internalApiSecret={SECRET}"]
    shop.pulumi("config", "set-all", *plain, *(part for each in secret for part in ("--secret", each)))
    return shop


def test_the_package_holds_all_that_a_stack_is_made_of(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        modes = {each.filename: each.external_attr >> 16 for each in archive.infolist()}
    assert {"infra/stack.py", "infra/provider/__main__.py", "migrations/0001_init.sql"} <= modes.keys()
    template = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "worker_template").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert template - modes.keys() == set()
    assert modes["infra/provider/pulumi-resource-cfrag"] & 0o111
    assert not [name for name in modes if "node_modules" in name or "__pycache__" in name]


def test_a_program_deploys_it_among_its_own_resources_and_removes_it(shop: Shop) -> None:
    shop.pulumi("up", "--yes", "--skip-preview")
    state = json.loads(shop.pulumi("stack", "export"))
    resources = {each["urn"].rsplit("::", 1)[-1]: each for each in state["deployment"]["resources"]}
    assert {"orders", "manuals", "manuals-space", "manuals-version"} <= resources.keys()
    assert resources["manuals-space"]["inputs"]["owner"] == "cfrag:shop/test"
    outputs = json.loads(shop.pulumi("stack", "output", "--json"))
    with httpx.Client(base_url=outputs["manualsUrl"], timeout=120, trust_env=False) as client:
        assert client.get("/health").status_code == 200
        stats = client.get("/v1/stats", headers={"Authorization": f"Bearer {SECRET}"})
        assert stats.status_code == 200, stats.text
    shop.pulumi("preview", "--expect-no-changes")
    shop.pulumi("destroy", "--yes", "--skip-preview")
    assert "resources" not in json.loads(shop.pulumi("stack", "export"))["deployment"]
