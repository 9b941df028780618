"""From a config to the Worker's own modules."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.bundle.manifest import Module
from infra.bundle.templates import TEMPLATE, literal, own_modules
from infra.config import RagConfig
from infra.errors import BundleError

ROOT = Path(__file__).resolve().parents[3]


def config(**values: Any) -> RagConfig:
    return RagConfig.from_pulumi({"name": "docs", **values})


FIELDS = {
    "class": {"type": "string", "enum": ["a", 'quote " and \\ and {{ braces }}']},
    "year": {"type": "number", "description": "Line one\nline 'two'"},
    "draft": {"type": "boolean", "filterable": False},
}
CONFIGS = {
    "the smallest": config(),
    "fields of every type": config(metadata=FIELDS, tags={"maxPerDocument": 4}),
    "an asymmetric model": config(embedding={"model": "@cf/qwen/qwen3-embedding-0.6b"}),
    "a service": config(auth={"mode": "service"}),
    "the secret only": config(auth={"mode": "secret"}, dashboard=False),
    "everything": config(
        metadata=FIELDS,
        cors={"origins": ["https://example.com"]},
        docsPublic=True,
        rateLimit={"limit": 5},
        mcp={"internalSecret": True, "description": 'A "quoted" corpus'},
    ),
}


def template(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def rendered(folder: Path, files: dict[str, str], **values: Any) -> dict[str, bytes]:
    modules = own_modules(config(**values), template(folder, files))
    return {module.name: module.content for module in modules}


def test_templates_lose_their_suffix_and_other_files_are_copied(tmp_path: Path) -> None:
    files = {
        "entry.py": "x = '{{ not a template }}'\n",
        "rag/settings.py.j2": "DIMS = {{ model.dims | py }}\n",
    }
    modules = rendered(tmp_path, files)
    assert modules["entry.py"] == b"x = '{{ not a template }}'\n"
    assert modules["rag/settings.py"] == b"DIMS = 768\n"
    assert not any(name.endswith(".j2") for name in modules)


def test_what_tools_leave_behind_is_not_part_of_the_worker(tmp_path: Path) -> None:
    left = {"__pycache__/entry.cpython-314.pyc": "", ".DS_Store": "", ".mypy_cache/x.json": ""}
    assert set(rendered(tmp_path, {"entry.py": "", **left})) == {"entry.py", "rag/statements.py"}


def test_an_undefined_name_in_a_template_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"rag/settings\.py\.j2.*'modle' is undefined"):
        rendered(tmp_path, {"rag/settings.py.j2": "{{ modle.dims }}"})


def test_a_broken_template_is_an_error_that_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"entry\.py\.j2:2"):
        rendered(tmp_path, {"entry.py.j2": "x = 1\n{% if %}\n"})


def test_statements_are_constants_of_the_sql_that_d1_runs(tmp_path: Path) -> None:
    namespace: dict[str, str] = {}
    exec(rendered(tmp_path, {})["rag/statements.py"], namespace)
    assert namespace["CLAIM"].startswith("INSERT INTO documents")


@pytest.mark.parametrize("name", CONFIGS)
def test_what_is_rendered_compiles(name: str) -> None:
    modules = [module for module in own_modules(CONFIGS[name]) if module.name.endswith(".py")]
    assert {"entry.py", "rag/core.py", "rag/settings.py", "rag/statements.py"} <= {m.name for m in modules}
    for module in modules:
        compile(module.content, module.name, "exec", dont_inherit=True)


@pytest.mark.parametrize("name", CONFIGS)
def test_settings_hold_the_configs_own_values(name: str) -> None:
    settings: dict[str, Any] = {}
    modules = {module.name: module.content for module in own_modules(CONFIGS[name])}
    exec(modules["rag/settings.py"], settings)
    wanted = CONFIGS[name]
    assert settings["MODEL"] == wanted.model.name
    assert settings["FINGERPRINT"] == wanted.fingerprint()
    assert set(settings["FIELDS"]) == set(wanted.metadata)
    for field, described in settings["FIELDS"].items():
        assert described["description"] == wanted.metadata[field].description
        assert tuple(described["enum"] or ()) == (wanted.metadata[field].enum or ())


def test_the_order_of_fields_in_the_config_doesnt_matter() -> None:
    backwards = config(metadata=dict(reversed(FIELDS.items())), tags={"maxPerDocument": 4})
    assert own_modules(backwards) == own_modules(CONFIGS["fields of every type"])


def test_two_checkouts_in_different_folders_render_the_same_bytes(tmp_path: Path) -> None:
    program = (
        "from infra.bundle.templates import own_modules; from infra.config import RagConfig; import hashlib;"
        "fields = {'b': {'type': 'string', 'enum': ['x', 'y']}, 'a': {'type': 'number'}};"
        "modules = own_modules(RagConfig.from_pulumi({'name': 'docs', 'metadata': fields}));"
        "print([(m.name, m.content_type, m.sha256) for m in modules])"
    )
    results = []
    for seed, folder in (("1", tmp_path / "one"), ("2", tmp_path / "a" / "deeper" / "two")):
        ignored = shutil.ignore_patterns("__pycache__")
        for part in ("infra", "worker_template", "migrations"):
            shutil.copytree(ROOT / part, folder / part, ignore=ignored)
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": str(folder), "TZ": f"UTC-{seed}"}
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        results.append(done.stdout)
    assert results[0] == results[1]
    assert "rag/core.py" in results[0]


@pytest.mark.parametrize(
    "value",
    [None, True, 7, -1.5, 'it\'s "x" \n é \\', [1, [2]], (), (1,), (1, "b"), {"b": 1, "a": [None]}],
    ids=repr,
)
def test_a_literal_reads_back_as_the_value(value: object) -> None:
    assert eval(literal(value)) == value


@pytest.mark.parametrize("value", [{1, 2}, 1j, float("nan"), float("inf"), b"x"], ids=repr)
def test_what_has_no_exact_spelling_is_no_literal(value: object) -> None:
    with pytest.raises(BundleError, match="as Python source"):
        literal(value)


def test_modules_get_the_content_type_that_cloudflare_wants() -> None:
    types = {Path(m.name).suffix: m.content_type for m in own_modules(CONFIGS["everything"])}
    assert types[".py"] == "text/x-python"
    assert TEMPLATE.joinpath("src", "entry.py").exists() or TEMPLATE.joinpath("src", "entry.py.j2").exists()
    assert all(isinstance(module, Module) for module in own_modules(config()))
