"""The one way from a config to a bundle."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from infra.bundle import manifest, store, vendor
from infra.bundle.manifest import Bundle
from infra.bundle.templates import TEMPLATE, own_modules
from infra.catalog import WORKER_GZIP_BYTES
from infra.config import RagConfig
from infra.errors import BundleError

_SHARED: ContextVar["Renderings | None"] = ContextVar("shared renderings", default=None)


class Renderings:
    """The bundles of a process that deploys many stacks: one rendering for each distinct config."""

    def __init__(self) -> None:
        self._bundles: dict[str, Bundle] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._bundles)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Let `render` use these within the block."""
        before = _SHARED.set(self)
        try:
            yield
        finally:
            _SHARED.reset(before)

    def get(self, config: RagConfig, home: Path | None = None, template: Path = TEMPLATE) -> Bundle:
        """As `render`."""
        key = f"{config.model_dump_json()} {home} {template}"
        with self._lock:
            if key not in self._bundles:
                self._bundles[key] = _render(config, home, template)
            return self._bundles[key]


def render(config: RagConfig, home: Path | None = None, template: Path = TEMPLATE) -> Bundle:
    """The Worker of a config; offline once the packages are in the cache under `home`.

    Raises BundleError for a template at fault, missing packages, or a bundle over Cloudflare's size limit.
    """
    if (shared := _SHARED.get()) is not None:
        return shared.get(config, home, template)
    return _render(config, home, template)


def _render(config: RagConfig, home: Path | None, template: Path) -> Bundle:
    own = own_modules(config, template)
    vendored = vendor.load(home or store.home(), template / vendor.LOCK.name)
    size = vendored.gzip_bytes + len(gzip.compress(b"".join(each.content for each in sorted(own)), mtime=0))
    if size > WORKER_GZIP_BYTES.value:
        raise BundleError(
            f"{WORKER_GZIP_BYTES.refusal('the Worker', size)}: {_largest(own, vendored.packages)}"
        )
    return manifest.assemble(own, vendored.modules, vendored.packages, size)


def _largest(own: list[manifest.Module], packages: dict[str, str]) -> str:
    files = sorted(own, key=lambda each: -len(each.content))[:3]
    listed = ", ".join(f"{each.name} {len(each.content):,} bytes" for each in files)
    return f"make the Worker's own files smaller (largest: {listed}) or drop one of {', '.join(packages)}"


def shown_size(bundle: Bundle) -> str:
    """The size of a bundle for people: of the limit in MiB."""
    used, limit = bundle.gzip_bytes / 2**20, WORKER_GZIP_BYTES.value / 2**20
    return f"{used:.1f} of {limit:.0f} MiB gzipped"
