"""The content hash: equal for documents that mean the same, whatever their tags' and keys' order."""

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from rag.jsonsafe import compact

VERSION = "v1"


def content_hash(title: str | None, body: str, tags: Iterable[str], metadata: Mapping[str, Any]) -> str:
    """`v1:` and the SHA-256 of title, body, tags (sorted, each once) and metadata; `active` is not content.

    Raises ValueError for NaN and infinities, which are not equal to themselves or have no JSON.
    """
    content = {"body": body, "metadata": _stable(metadata), "tags": sorted(set(tags)), "title": title}
    return f"{VERSION}:{hashlib.sha256(compact(content).encode()).hexdigest()}"


def _stable(value: Any) -> Any:
    """Keys sorted, integral floats as integers: 2024 and 2024.0 are the same number in JSON."""
    if isinstance(value, Mapping):
        return {key: _stable(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_stable(each) for each in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} can't be hashed: only finite numbers are content")
        return int(value) if value.is_integer() else value
    return value
