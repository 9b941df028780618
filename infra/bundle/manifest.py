"""What a Worker bundle is: its modules, and what names and describes them."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

# 3.14 is the default from this date on (workers-py 1.17.9); a later one changes the runtime's behaviour.
COMPATIBILITY_DATE = "2026-09-08"
COMPATIBILITY_FLAGS = ("python_workers",)
MAIN_MODULE = "entry.py"
VENDORED = "python_modules/"

_CONTENT_TYPES = {
    ".py": "text/x-python",
    ".js": "application/javascript+module",
    ".mjs": "application/javascript+module",
}


class Module(NamedTuple):
    """One file of a Worker as it is uploaded; names use forward slashes, `src/` is their root."""

    name: str
    content_type: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def module(name: str, content: bytes) -> Module:
    """A module with the content type that its name asks for."""
    return Module(name, _CONTENT_TYPES.get(PurePosixPath(name).suffix, "application/octet-stream"), content)


@dataclass(frozen=True)
class Bundle:
    """A rendered Worker, ready to be uploaded.

    `manifest` maps the project's own modules to their SHA-256 and vendored packages to their versions;
    `digest` is the SHA-256 over everything that reaches Cloudflare; `gzip_bytes` the size that counts
    against the Worker's size limit.
    """

    main_module: str
    modules: tuple[Module, ...]
    compatibility_date: str
    compatibility_flags: tuple[str, ...]
    manifest: Mapping[str, str]
    digest: str
    gzip_bytes: int


def assemble(
    own: Iterable[Module], vendored: Iterable[Module], packages: Mapping[str, str], size: int
) -> Bundle:
    """A bundle of the project's own modules and the vendored ones, sorted by name."""
    own = sorted(own)
    modules = tuple(sorted([*own, *vendored]))
    return Bundle(
        main_module=MAIN_MODULE,
        modules=modules,
        compatibility_date=COMPATIBILITY_DATE,
        compatibility_flags=COMPATIBILITY_FLAGS,
        manifest={each.name: each.sha256 for each in own} | dict(sorted(packages.items())),
        digest=digest(MAIN_MODULE, COMPATIBILITY_DATE, COMPATIBILITY_FLAGS, modules),
        gzip_bytes=size,
    )


def digest(main_module: str, date: str, flags: Iterable[str], modules: Iterable[Module]) -> str:
    """SHA-256 over all that is uploaded, in hexadecimal."""
    listed = [[each.name, each.content_type, each.sha256] for each in modules]
    text = json.dumps([main_module, date, list(flags), listed], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
