"""A rendered Worker as a standard Python Worker project."""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import mypy.api
import pytest
import yaml

from infra.bundle import render, render_project, write_project
from infra.bundle.project import stack_config
from infra.config import RagConfig
from infra.errors import BundleError, ConfigError

ROOT = Path(__file__).resolve().parents[3]
RAG = {
    "name": "docs",
    "metadata": {"author": {"type": "string"}, "year": {"type": "number"}},
    "queue": {"maxConcurrency": 4},
    "rateLimit": {"limit": 5},
    "domain": {"hostname": "rag.example.com", "zoneId": "z"},
    "inheritSecrets": ["OTHER"],
}


def settings(folder: Path, stack: str, **rag: Any) -> Path:
    text = yaml.safe_dump({"config": {"cf-rag:accountId": "x", "cf-rag:rag": {**RAG, **rag}}})
    (folder / f"Pulumi.{stack}.yaml").write_text(text)
    return folder


def wrangler(out: Path) -> Any:
    text = (out / "wrangler.jsonc").read_text()
    return json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_project_holds_what_wrangler_and_pywrangler_expect(tmp_path: Path) -> None:
    out = tmp_path / "out"
    render_project("dev", out, settings(tmp_path, "dev"))
    found = files(out)
    assert {
        "src/entry.py",
        "src/rag/core.py",
        "wrangler.jsonc",
        "pyproject.toml",
        "manifest.json",
    } <= found.keys()
    assert "python_modules/workers/__init__.py" in found
    assert "migrations/0001_init.sql" in found
    assert "requirements.txt" not in found, "pywrangler refuses a project that has one"
    assert not any(name.startswith("src/python_modules") for name in found)
    assert tomllib.loads(found["pyproject.toml"].decode())["project"]["dependencies"]


def test_wrangler_gets_the_stacks_own_names_and_settings(tmp_path: Path) -> None:
    render_project("dev", tmp_path / "out", settings(tmp_path, "dev"))
    written = wrangler(tmp_path / "out")
    assert written["name"] == "docs-dev-worker"
    assert written["main"] == "src/entry.py"
    assert written["vectorize"] == [{"binding": "VECTORIZE", "index_name": "docs-dev-768-g1", "remote": True}]
    assert written["queues"]["consumers"][0]["dead_letter_queue"] == "docs-dev-ingest-dlq"
    assert written["queues"]["consumers"][0]["max_concurrency"] == 4
    assert written["vars"]["EMBED_DIMS"] == "768"
    assert written["secrets"]["required"] == ["INTERNAL_API_SECRET", "OTHER"]
    assert written["routes"] == [{"pattern": "rag.example.com", "custom_domain": True}]
    assert written["ratelimits"][0]["simple"] == {"limit": 5, "period": 60}


def test_while_replacing_wrangler_gets_both_indexes(tmp_path: Path) -> None:
    change = {
        "embedding": {"model": "@cf/baai/bge-m3", "generation": 2},
        "replacing": {"generation": 1, "model": "@cf/baai/bge-base-en-v1.5"},
    }
    render_project("dev", tmp_path / "out", settings(tmp_path, "dev", **change))
    indexes = {each["binding"]: each["index_name"] for each in wrangler(tmp_path / "out")["vectorize"]}
    assert indexes == {"VECTORIZE": "docs-dev-768-g1", "VECTORIZE_NEXT": "docs-dev-1024-g2"}


def test_the_smallest_config_makes_a_valid_wrangler_file(tmp_path: Path) -> None:
    text = yaml.safe_dump({"config": {"cf-rag:rag": {"name": "docs"}}})
    (tmp_path / "Pulumi.dev.yaml").write_text(text)
    render_project("dev", tmp_path / "out", tmp_path)
    assert "routes" not in wrangler(tmp_path / "out")


@pytest.mark.parametrize("stack", ["dev", "staging", "prod"])
def test_the_stacks_of_this_project_render(tmp_path: Path, stack: str) -> None:
    bundle = render_project(stack, tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text())["digest"] == bundle.digest


def test_rendering_twice_gives_the_same_files(tmp_path: Path) -> None:
    settings(tmp_path, "dev")
    for name in ("one", "two"):
        render_project("dev", tmp_path / name, tmp_path)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_rendering_again_removes_what_is_no_longer_part_of_it(tmp_path: Path) -> None:
    bundle = render(RagConfig.from_pulumi(RAG))
    write_project(bundle, tmp_path, {"old.txt": b"old"})
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "mine.js").write_text("kept")
    write_project(bundle, tmp_path, {"new.txt": b"new"})
    found = files(tmp_path)
    assert "old.txt" not in found
    assert found["new.txt"] == b"new"
    assert "node_modules/mine.js" in found


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.md").write_text("precious")
    with pytest.raises(BundleError, match="is not empty and holds no rendered Worker"):
        render_project("dev", out, settings(tmp_path, "dev"))
    assert list(files(out)) == ["thesis.md"]


def test_an_unknown_stack_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    settings(settings(tmp_path, "dev"), "prod")
    with pytest.raises(ConfigError, match=r"no Pulumi\.live\.yaml; known stacks: dev, prod"):
        stack_config("live", tmp_path)


@pytest.mark.parametrize("text", ["", "config: {}", "config:\n  cf-rag:rag: 7\n", "config: [1]", "- 1"])
def test_settings_without_a_service_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"cf-rag:rag: is missing in Pulumi\.dev\.yaml"):
        stack_config("dev", tmp_path)


def test_settings_that_are_no_yaml_are_refused_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text("config: {\n")
    with pytest.raises(ConfigError, match=r"Pulumi\.dev\.yaml: .*line 2"):
        stack_config("dev", tmp_path)


def test_a_config_at_fault_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cf-rag:rag\.tags\.maxPerDocument"):
        render_project("dev", tmp_path / "out", settings(tmp_path, "dev", tags={"maxPerDocument": 9}))
    assert not (tmp_path / "out").exists()


def test_rendered_python_type_checks(tmp_path: Path) -> None:
    render_project("dev", tmp_path / "out", settings(tmp_path, "dev"))
    source = tmp_path / "out" / "src"
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nstrict = true\nplugins = pydantic.mypy\n"
        "[mypy-js.*,pyodide.*,_pyodide_entrypoint_helper.*]\nignore_missing_imports = true\n"
    )
    output, errors, status = mypy.api.run(
        [
            "--config-file",
            str(tmp_path / "mypy.ini"),
            "--python-version",
            "3.14",
            "--python-executable",
            sys.executable,
            "--cache-dir",
            str(ROOT / ".mypy_cache" / "rendered"),
            "--explicit-package-bases",
            str(source),
        ]
    )
    assert status == 0, output + errors
