"""The Python side of the host: import paths, the main module, and calls to its classes."""

import importlib
import importlib.util
import sys
from inspect import isawaitable
from types import ModuleType
from typing import Any

from pyodide.code import relaxed_call  # type: ignore[import-not-found]

# Cloudflare drops arguments of event handlers that the method doesn't take.
EVENT_HANDLERS = {"fetch", "queue", "scheduled", "test"}

_main: ModuleType | None = None


def start(root: str, main_module: str) -> None:
    """Import the Worker's main module from ``root``; its own modules go before vendored ones."""
    global _main
    sys.path[:0] = [root, f"{root}/python_modules"]
    if importlib.util.find_spec("_workers_sdk_package_patches"):
        importlib.import_module("_workers_sdk_package_patches")
    _main = importlib.import_module(main_module)


def instantiate(class_name: str, ctx: Any, env: Any) -> Any:
    """A new object of the main module's class, as for every event."""
    cls = getattr(_main, class_name, None)
    if not isinstance(cls, type):
        raise TypeError(f"There is no '{class_name}' class defined in the Python Worker's main module")
    return cls(ctx, env)


async def dispatch(instance: Any, method_name: str, *args: Any) -> Any:
    """Call a method with arguments and result converted as the Workers runtime SDK does for RPC."""
    from workers import python_from_rpc, python_to_rpc

    method = getattr(instance, method_name, None)
    if not callable(method):
        raise TypeError(f"Method {method_name} does not exist")
    values = [python_from_rpc(arg) for arg in args]
    result = relaxed_call(method, *values) if method_name in EVENT_HANDLERS else method(*values)
    return python_to_rpc(await result if isawaitable(result) else result)
