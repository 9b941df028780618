"""A rendered Worker as a standard Python Worker project, for reading, `wrangler` and `pywrangler`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from infra import wiring
from infra.bundle.build import render
from infra.bundle.manifest import VENDORED, Bundle
from infra.bundle.templates import TEMPLATE, render_file
from infra.config import CONFIG_KEY, RagConfig
from infra.errors import BundleError, ConfigError

ROOT = Path(__file__).resolve().parents[2]
_MANIFEST = "manifest.json"


def render_project(stack: str, out: Path, root: Path = ROOT, home: Path | None = None) -> Bundle:
    """Render the Worker of a stack into `out`, from its Pulumi.<stack>.yaml alone.

    Raises ConfigError or BundleError; nothing is written then.
    """
    config = RagConfig.from_pulumi(stack_config(stack, root))
    bundle = render(config, home)
    write_project(bundle, out, _project_files(config, stack, bundle))
    return bundle


def stack_config(stack: str, root: Path = ROOT) -> dict[str, Any]:
    """The object under `cf-rag:rag` in a stack's settings file. Raises ConfigError."""
    path = root / f"Pulumi.{stack}.yaml"
    if not path.is_file():
        known = sorted(each.name.split(".")[1] for each in root.glob("Pulumi.*.yaml"))
        raise ConfigError([("stack", f"there is no {path.name}; known stacks: {', '.join(known)}")])
    try:
        settings = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ConfigError([(path.name, " ".join(str(error).split()))]) from None
    config = settings.get("config") if isinstance(settings, dict) else None
    raw = config.get(CONFIG_KEY) if isinstance(config, dict) else None
    if not isinstance(raw, dict):
        raise ConfigError([(CONFIG_KEY, f"is missing in {path.name}")])
    return raw


def write_project(bundle: Bundle, out: Path, extra: Mapping[str, bytes] | None = None) -> None:
    """Write `src/`, `python_modules/` and the files of the project's root into `out`.

    Files of an earlier rendering that are no longer part of it are removed. Raises BundleError where
    `out` holds something else.
    """
    before = _written_before(out)
    files = {_path(each.name): each.content for each in bundle.modules} | dict(extra or {})
    for name, content in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for name in before - files.keys():
        (out / name).unlink(missing_ok=True)
    (out / _MANIFEST).write_text(json.dumps(_manifest(bundle, files), indent=2) + "\n")


def _path(module: str) -> str:
    return module if module.startswith(VENDORED) else f"src/{module}"


def _manifest(bundle: Bundle, files: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "digest": bundle.digest,
        "gzipBytes": bundle.gzip_bytes,
        "contents": dict(bundle.manifest),
        "files": sorted(files),
    }


def _written_before(out: Path) -> set[str]:
    if not out.exists() or not any(out.iterdir()):
        return set()
    try:
        return set(json.loads((out / _MANIFEST).read_text())["files"])
    except (OSError, ValueError, KeyError):
        raise BundleError(f"{out} is not empty and holds no rendered Worker; give an empty folder") from None


def _project_files(config: RagConfig, stack: str, bundle: Bundle) -> dict[str, bytes]:
    copied = {name: (TEMPLATE / name).read_bytes() for name in ("pyproject.toml", "requirements.lock")}
    migrations = {
        f"migrations/{path.name}": path.read_bytes() for path in (ROOT / "migrations").glob("*.sql")
    }
    return {"wrangler.jsonc": wrangler_file(config, stack, bundle), **copied, **migrations}


def wrangler_file(config: RagConfig, stack: str, bundle: Bundle) -> bytes:
    """`wrangler.jsonc` of a stack: what its Worker is bound to, and its settings."""
    names = config.names(stack)
    indexes = {space.binding: space.name for space in wiring.spaces(config, names) if space.binding}
    return render_file(
        "wrangler.jsonc.j2",
        config=config,
        names=names,
        bundle=bundle,
        indexes=dict(sorted(indexes.items())),
        secrets=sorted({"INTERNAL_API_SECRET", *config.inherit_secrets}),
        variables=wiring.variables(config),
        rate_namespace=wiring.rate_namespace(names),
    )
