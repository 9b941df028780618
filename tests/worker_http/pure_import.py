"""Imports a rendered Worker where randomness, time, files, processes and the network are forbidden.

Cloudflare runs the module level once, when a version is made, and starts every isolate from a snapshot of
it: what is random or secret there would be shared by all, and is refused.
"""

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

FORBIDDEN = {
    "os.urandom",
    "socket.__new__",
    "socket.connect",
    "subprocess.Popen",
    "time.sleep",
    "os.putenv",
    "os.listxattr",
}


def forbid(name: str) -> Any:
    def refused(*_: object, **__: object) -> NoReturn:
        raise AssertionError(f"{name} at module level")

    return refused


def stand_in_for_the_runtime() -> None:
    workers = ModuleType("workers")
    workers.WorkerEntrypoint = object  # type: ignore[attr-defined]
    workers.asgi = ModuleType("workers.asgi")  # type: ignore[attr-defined]
    sys.modules["workers"] = workers


def forbid_everything(source: str) -> None:
    import random
    import secrets
    import time
    import uuid

    for module, names in (
        (os, ["urandom"]),
        (secrets, ["token_bytes", "token_hex", "token_urlsafe", "choice", "randbits"]),
        (uuid, ["uuid1", "uuid4"]),
        (random, ["random", "randint", "choice", "getrandbits", "randbytes", "Random", "SystemRandom"]),
        (time, ["time", "time_ns", "monotonic", "perf_counter", "sleep"]),
    ):
        for name in names:
            setattr(module, name, forbid(f"{module.__name__}.{name}"))

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        opened = event == "open" and not str(arguments[0]).startswith(source)
        if opened or event in FORBIDDEN or event.startswith("socket."):
            raise AssertionError(f"{event} {arguments[:1]} at module level")

    sys.addaudithook(watch)


def main(source: str) -> None:
    stand_in_for_the_runtime()
    sys.dont_write_bytecode = True
    sys.path.insert(0, source)
    modules = [
        ".".join(path.relative_to(source).with_suffix("").parts)
        for path in sorted(Path(source).rglob("*.py"))
        if path.name != "__init__.py"
    ]
    # What others wrote is imported twice: the first time may do as it likes.
    for module in modules:
        importlib.import_module(module)
    for name in [name for name in sys.modules if name.split(".")[0] in ("rag", "entry")]:
        del sys.modules[name]
    forbid_everything(source)
    for module in modules:
        importlib.import_module(module)
    print(len(modules))


main(*sys.argv[1:])
