"""The Worker's packages: from a hash-locked list, cached, and no more than a Worker needs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.bundle import store, vendor
from infra.errors import BundleError

ROOT = Path(__file__).resolve().parents[3]
# Where nothing answers: whoever asks a package index fails at once.
OFFLINE = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_TIMEOUT": "1"}


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    """A home of its own that holds the downloaded packages."""
    folder = vendor.ensure(store.home())
    copy = tmp_path / folder.relative_to(store.home())
    shutil.copytree(folder, copy)
    return tmp_path


def names(home: Path) -> set[str]:
    return {module.name for module in vendor.load(home).modules}


def test_the_runtime_sdk_and_what_the_worker_imports_are_there(cached: Path) -> None:
    found = names(cached)
    for package in ("workers", "fastapi", "pydantic", "starlette", "anyio", "mcp_types"):
        assert f"python_modules/{package}/__init__.py" in found
    assert any(name.startswith("python_modules/pydantic_core/") and name.endswith(".so") for name in found)


def test_every_package_is_pinned_with_hashes_and_no_registry_is_named() -> None:
    text = vendor.LOCK.read_text()
    entries = text.count("==")
    assert entries == len(vendor.packages()) > 10
    assert "--hash=sha256:" in text
    assert "://" not in text
    blocks = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert all(line.endswith("\\") for line in blocks), "every requirement goes on with its hashes"


def test_compiled_modules_are_binary_and_python_is_text(cached: Path) -> None:
    types = {Path(m.name).suffix: m.content_type for m in vendor.load(cached).modules}
    assert types[".py"] == "text/x-python"
    assert types[".so"] == "application/octet-stream"
    assert types[".js"] == "application/javascript+module"


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("fastapi/routing.py", True),
        ("fastapi/py.typed", False),
        ("workers/types.pyi", False),
        ("workers/workflows.js", True),
        ("pydantic_core/_pydantic_core.cpython-314-wasm32-emscripten.so", True),
        ("pydantic/v1/main.py", False),
        ("anyio/pytest_plugin.py", False),
        ("package/tests/test_it.py", False),
        ("package/test.py", True),
        ("package/", False),
        ("opentelemetry_api-1.0.dist-info/entry_points.txt", True),
        ("opentelemetry_api-1.0.dist-info/METADATA", True),
        ("opentelemetry_api-1.0.dist-info/RECORD", False),
        ("opentelemetry_api-1.0.dist-info/licenses/METADATA", False),
    ],
)
def test_only_what_a_worker_can_use_is_kept(name: str, kept: bool) -> None:
    assert vendor.needed(name) is kept


def test_once_cached_nothing_is_downloaded(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OFFLINE.items():
        monkeypatch.setenv(name, value)
    assert len(names(cached)) > 200


def test_without_an_index_and_a_cache_the_reason_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in OFFLINE.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BundleError, match=r"requirements\.lock.*can't be downloaded.*later runs are offline"):
        vendor.ensure(tmp_path)
    assert not list(tmp_path.rglob("vendor.json")), "nothing half made is left"


def test_another_lock_is_another_cache(cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OFFLINE.items():
        monkeypatch.setenv(name, value)
    changed = tmp_path / "requirements.lock"
    changed.write_text(vendor.LOCK.read_text() + "# one more line\n")
    with pytest.raises(BundleError, match="can't be downloaded"):
        vendor.load(cached, changed)


def test_a_package_whose_hash_is_not_the_locked_one_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "wheels" / "thing-1.0-py3-none-any.whl"
    build_wheel(wheel)
    lock = tmp_path / "requirements.lock"
    lock.write_text(f"thing==1.0 --hash=sha256:{'0' * 64}\n")
    program = (
        "from infra.bundle import vendor; from pathlib import Path; import sys;"
        "vendor.ensure(*map(Path, sys.argv[1:]))"
    )
    environment = {**os.environ, **OFFLINE, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel.parent)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "home"), str(lock)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "can't be downloaded" in done.stderr
    assert "Got" in done.stderr, "pip says which hash it found"
    assert not list((tmp_path / "home").rglob("vendor.json"))


def build_wheel(path: Path) -> None:
    """The least that pip takes for a wheel of `thing` 1.0."""
    import zipfile

    path.parent.mkdir(parents=True)
    info = "thing-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("thing.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_a_cached_file_that_was_changed_is_noticed(cached: Path) -> None:
    victim = next(cached.rglob("modules/fastapi/applications.py"))
    victim.write_text("changed")
    with pytest.raises(BundleError, match="was changed after it was downloaded"):
        vendor.load(cached)


def test_the_size_is_that_of_the_modules_gzipped(cached: Path) -> None:
    loaded = vendor.load(cached)
    plain = sum(len(module.content) for module in loaded.modules)
    assert 1_000_000 < loaded.gzip_bytes < plain
    index = json.loads(next(cached.rglob("vendor.json")).read_text())
    assert loaded.gzip_bytes == index["gzipBytes"]
