"""Rendered bundles by their digest, where the provider finds them."""

import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from infra.bundle.manifest import Bundle, Module, digest
from infra.errors import BundleError

_KEPT = 5
# A `pulumi up` next door reads what it has just saved; no deployment takes longer.
_IN_USE_SECONDS = 15 * 60


def home() -> Path:
    """The folder for what is made on this machine: `.cfrag` in the project, or `CFRAG_HOME`."""
    configured = os.environ.get("CFRAG_HOME")
    return Path(configured).resolve() if configured else Path(__file__).resolve().parents[2] / ".cfrag"


def save(bundle: Bundle, home: Path) -> str:
    """Keep a bundle under its digest, which is returned; the oldest ones beyond a few are removed."""
    folder = home / "bundles" / bundle.digest
    if folder.exists():
        os.utime(folder)
        return bundle.digest
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as temporary:
        ready = Path(temporary) / "bundle"
        alike = next(iter(_newest_first(folder.parent)), None)
        for module in bundle.modules:
            _write(ready / "modules" / module.name, module.content, alike and alike / "modules" / module.name)
        _write(ready / "bundle.json", json.dumps(_described(bundle), indent=1).encode())
        try:
            ready.rename(folder)
        except OSError:
            # Another process was first, with the same bytes.
            if not folder.exists():
                raise
    _remove_oldest(folder.parent)
    return bundle.digest


def load(home: Path, digest_: str) -> Bundle:
    """The bundle with this digest. Raises BundleError where it is missing or not what was saved."""
    folder = home / "bundles" / digest_
    try:
        described = json.loads((folder / "bundle.json").read_text())
        bundle = _bundle(described, folder / "modules")
    except FileNotFoundError as missing:
        raise BundleError(
            f"bundle {digest_[:12]} is not complete in {folder.parent}: run `pulumi up` from the project, "
            f"which renders it first ({Path(missing.filename).name} is missing)"
        ) from None
    found = digest(bundle.main_module, bundle.compatibility_date, bundle.compatibility_flags, bundle.modules)
    if found != digest_:
        raise BundleError(f"bundle {digest_[:12]} was changed after it was rendered; remove {folder}")
    return bundle


def _described(bundle: Bundle) -> dict[str, Any]:
    return {
        "digest": bundle.digest,
        "mainModule": bundle.main_module,
        "compatibilityDate": bundle.compatibility_date,
        "compatibilityFlags": list(bundle.compatibility_flags),
        "gzipBytes": bundle.gzip_bytes,
        "manifest": dict(bundle.manifest),
        "modules": [{"name": each.name, "contentType": each.content_type} for each in bundle.modules],
    }


def _bundle(described: dict[str, Any], folder: Path) -> Bundle:
    return Bundle(
        main_module=described["mainModule"],
        modules=tuple(
            Module(each["name"], each["contentType"], (folder / each["name"]).read_bytes())
            for each in described["modules"]
        ),
        compatibility_date=described["compatibilityDate"],
        compatibility_flags=tuple(described["compatibilityFlags"]),
        manifest=described["manifest"],
        digest=described["digest"],
        gzip_bytes=described["gzipBytes"],
    )


def _write(path: Path, content: bytes, alike: Path | None = None) -> None:
    """Write a file; where `alike` has the same content, both share it: most of each bundle is the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        if alike and alike.read_bytes() == content:
            path.hardlink_to(alike)
            return
    except OSError:
        # It is new, was just removed, or the file system has no links.
        pass
    path.write_bytes(content)


def _newest_first(folder: Path) -> list[Path]:
    bundles = [path for path in folder.iterdir() if not path.name.startswith(".")]
    return sorted(bundles, key=_used, reverse=True)


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process removes it
        return 0.0


def _remove_oldest(folder: Path) -> None:
    for path in _newest_first(folder)[_KEPT:]:
        if _used(path) < time.time() - _IN_USE_SECONDS:
            shutil.rmtree(path, ignore_errors=True)
