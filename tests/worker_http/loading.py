"""Rendered Workers as importable modules, one set per config, side by side in one process."""

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import Any

from infra.bundle.templates import own_modules
from infra.config import RagConfig

CONFIG: dict[str, Any] = {
    "name": "pydocs",
    "metadata": {
        "chapter": {"type": "string", "enum": ["types", "syntax"], "description": "Part of the docs."},
        "words": {"type": "number"},
        "draft": {"type": "boolean"},
        "level": {"type": "number", "enum": [1, 2]},
        "author": {"type": "string"},
        "class": {"type": "string", "filterable": False, "description": "A Python keyword."},
    },
}
_MODULES = ("app", "auth", "batch", "body", "edge", "errors", "logs", "rpc", "schemas", "settings", "store")


class Rendered:
    """The modules of one config's Worker, by name: `rendered.app`."""

    def __init__(self, folder: Path, modules: dict[str, ModuleType]) -> None:
        self.folder = folder
        self._modules = modules

    def __getattr__(self, name: str) -> Any:
        return self._modules[f"rag.{name}"]


def rendered(**config: Any) -> Rendered:
    """The Worker of `CONFIG` with some keys changed; rendered and imported once."""
    return _rendered(json.dumps({**CONFIG, **config}, sort_keys=True))


@cache
def _rendered(config: str) -> Rendered:
    folder = Path(mkdtemp(prefix="cfrag-rendered-"))
    for each in own_modules(RagConfig.from_pulumi(json.loads(config))):
        path = folder / each.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(each.content)
    with _own_modules(folder) as modules:
        for name in _MODULES:
            importlib.import_module(f"rag.{name}")
        modules.update({name: module for name, module in sys.modules.items() if name.startswith("rag.")})
    return Rendered(folder, modules)


@contextmanager
def _own_modules(folder: Path) -> Iterator[dict[str, ModuleType]]:
    """Import `rag` from a folder, without a trace in `sys.modules` afterwards."""
    mine: dict[str, ModuleType] = {}
    others = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "rag"}
    sys.path.insert(0, str(folder))
    try:
        yield mine
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] == "rag"]:
            del sys.modules[name]
        sys.modules.update(others)
