"""Runs the SDK's patches around the import of the packages that they are for."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

ExecPatch = Callable[[ModuleType], AbstractContextManager[None]]

_patches: dict[str, ExecPatch] = {}


def register_exec_patch(name: str) -> Callable[[ExecPatch], ExecPatch]:
    """Decorator: enter the context manager with module ``name`` while it is executed."""

    def register(patch: ExecPatch) -> ExecPatch:
        _patches[name] = patch
        return patch

    return register


class _PatchedLoader(Loader):
    def __init__(self, loader: Loader, patch: ExecPatch) -> None:
        self.loader = loader
        self.patch = patch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        with self.patch(module):
            self.loader.exec_module(module)


class _PatchFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        patch = _patches.get(fullname)
        spec = PathFinder.find_spec(fullname, path, target) if patch else None
        if spec and spec.loader and patch:
            spec.loader = _PatchedLoader(spec.loader, patch)
        return spec


sys.meta_path.insert(0, _PatchFinder())
