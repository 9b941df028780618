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

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Make this Worker's `rag` the one that is imported, as some of it is only when it is needed."""
        others = _without_rag()
        sys.modules.update(self._modules)
        sys.path.insert(0, str(self.folder))
        try:
            yield
        finally:
            sys.path.remove(str(self.folder))
            self._modules.update(_without_rag())
            sys.modules.update(others)

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
    worker = Rendered(folder, {})
    with worker.importable():
        for name in _MODULES:
            importlib.import_module(f"rag.{name}")
    return worker


def _without_rag() -> dict[str, ModuleType]:
    """Take every module of a Worker out of `sys.modules`."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "rag"}
