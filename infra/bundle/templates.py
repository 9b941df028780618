"""From a config to the Worker's own modules: copied, rendered with Jinja2, or generated."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError

from infra import catalog
from infra.bundle.manifest import COMPATIBILITY_DATE, COMPATIBILITY_FLAGS, Module, module
from infra.config import RagConfig
from infra.errors import BundleError

TEMPLATE = Path(__file__).resolve().parents[2] / "worker_template"
_SUFFIX = ".j2"


def own_modules(config: RagConfig, template: Path = TEMPLATE) -> list[Module]:
    """The project's own modules for a config: same config, same bytes. Raises BundleError."""
    source = template / "src"
    render = _renderer(source, context(config))
    modules = [
        module(name.removesuffix(_SUFFIX), render(name) if name.endswith(_SUFFIX) else path.read_bytes())
        for name, path in _files(source)
    ]
    return [*modules, module("rag/statements.py", _statements_module())]


def render_file(name: str, template: Path = TEMPLATE, **extra: Any) -> bytes:
    """One template of the project's root, for example `wrangler.jsonc.j2`."""
    return _renderer(template, extra)(name)


def context(config: RagConfig) -> dict[str, Any]:
    """What the templates can use."""
    return {
        "config": config,
        "model": config.model,
        "limits": catalog,
        "fields": dict(sorted(config.metadata.items())),
        "tag_properties": config.tag_properties(),
        "fingerprint": config.fingerprint(),
        "statements": _statements(),
        "compatibility_date": COMPATIBILITY_DATE,
        "compatibility_flags": COMPATIBILITY_FLAGS,
    }


def literal(value: Any) -> str:
    """A value as Python source. Raises BundleError for one that can't be written down exactly."""
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, tuple):
        return "(" + "".join(f"{literal(each)}, " for each in value).rstrip() + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(each)}" for key, each in value.items()) + "}"
    raise BundleError(f"a template asked for a {type(value).__name__} as Python source")


def _renderer(folder: Path, values: dict[str, Any]) -> Callable[[str], bytes]:
    environment = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["py"] = literal

    def render(name: str) -> bytes:
        try:
            return environment.get_template(name).render(values).encode()
        except TemplateError as error:
            where = f"{name}:{error.lineno}" if hasattr(error, "lineno") else name
            raise BundleError(f"template {where}: {error.message}") from error

    return render


def _files(source: Path) -> list[tuple[str, Path]]:
    """Files below a folder by their names in the bundle.

    Left out is what tools leave behind, and the parts that templates include: `_name` and no Python.
    """
    found = [(path.relative_to(source), path) for path in source.rglob("*") if path.is_file()]
    return sorted(
        (relative.as_posix(), path)
        for relative, path in found
        if not any(part.startswith(".") or part == "__pycache__" for part in relative.parts)
        and (not path.name.startswith("_") or path.suffix in (".py", _SUFFIX))
    )


def _statements() -> dict[str, str]:
    from infra.bundle.statements import STATEMENTS

    return dict(sorted(STATEMENTS.items()))


def _statements_module() -> bytes:
    lines = ['"""SQL of the Worker, compiled from the tables when it was rendered."""', ""]
    lines += [f"{name.upper()} = {literal(sql)}" for name, sql in _statements().items()]
    return ("\n".join(lines) + "\n").encode()
