"""The rendered Worker's modules as plain Python, several versions of them side by side."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

from infra.bundle.templates import own_modules
from infra.config import RagConfig


class Version:
    """One rendered Worker: its modules as attributes, with module state of their own (an isolate)."""

    def __init__(self, folder: Path) -> None:
        self._modules = _import_all(folder)

    def __getattr__(self, name: str) -> ModuleType:
        try:
            return self._modules[f"rag.{name}"]
        except KeyError:
            raise AttributeError(name) from None


def render(config: RagConfig, folder: Path) -> Path:
    """The project's own modules of the Worker for a config, written below `folder`."""
    for module in own_modules(config):
        path = folder / module.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(module.content)
    return folder


_CORE = (
    "consumer core document embedder errors hashing jsonsafe model_state models schemas spaces store sweep "
    "transfer vectors"
)


def _import_all(folder: Path) -> dict[str, ModuleType]:
    _forget()
    sys.path.insert(0, str(folder))
    try:
        for name in _CORE.split():
            if (folder / "rag" / f"{name}.py").exists():
                importlib.import_module(f"rag.{name}")
        return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "rag"}
    finally:
        sys.path.remove(str(folder))
        _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rag"]:
        del sys.modules[name]
