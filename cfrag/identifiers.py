"""Document ids that the service takes, made from the names that sources have."""

import hashlib
import unicodedata

from infra.catalog import VECTORIZE_ID_BYTES

_DIGEST_CHARS = 32


def fold_id(name: str) -> str:
    """The name in NFC; over 64 UTF-8 bytes, its beginning and a hash of all of it, the same every time.

    The service refuses longer ids instead of cutting them, since two names could become one.
    """
    normal = unicodedata.normalize("NFC", name)
    encoded = normal.encode()
    if len(encoded) <= VECTORIZE_ID_BYTES.value:
        return normal
    digest = hashlib.sha256(encoded).hexdigest()[:_DIGEST_CHARS]
    kept = encoded[: VECTORIZE_ID_BYTES.value - _DIGEST_CHARS - 1].decode(errors="ignore")
    return f"{kept}~{digest}"
