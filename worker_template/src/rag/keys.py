"""API keys: made and shown once, stored as SHA-256, found by it, revoked."""

import secrets
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from rag import statements as sql
from rag import store
from rag.bindings import D1
from rag.errors import Problem
from rag.schemas import Key, KeyRequest, MintedKey

PREFIX = "pi_"


def key_hash(key: str) -> str:
    """What is stored of a key: its SHA-256 in hex. The key is random, so no salt is needed."""
    return sha256(key.encode()).hexdigest()


async def mint(db: D1, request: KeyRequest) -> MintedKey:
    """A new key, `pi_` and 32 random bytes. It can't be had again. Raises 422 for an expiry in the past."""
    expires = int(request.expires_at.timestamp() * 1000) if request.expires_at else None
    now = _now()
    if expires is not None and expires <= now:
        raise Problem("invalid-value", "expiresAt is in the past", field="expiresAt")
    key = PREFIX + secrets.token_urlsafe(32)
    row = {
        "id": f"key_{secrets.token_hex(8)}",
        "name": request.name,
        "scopes": " ".join(sorted(set(request.scopes))),
        "created_at": now,
        "expires_at": expires,
    }
    values = (row["id"], key_hash(key), row["name"], row["scopes"], now, expires)
    await store.run(db, (sql.KEY_ADD, *values))
    return MintedKey(key=key, **_shown(row))


async def find(db: D1, key: str) -> Key | None:
    """The key with this text, revoked and expired ones too. One round trip."""
    (rows,) = await store.run(db, (sql.KEY_BY_HASH, key_hash(key)))
    return Key(**_shown(rows[0])) if rows else None


async def listed(db: D1) -> list[Key]:
    """All keys ever made, oldest first."""
    (rows,) = await store.run(db, (sql.KEY_LIST,))
    return [Key(**_shown(row)) for row in rows]


async def revoke(db: D1, key_id: str) -> Key:
    """The key, no longer valid; revoking it again keeps the first time. Raises 404."""
    (rows,) = await store.run(db, (sql.KEY_REVOKE, _now(), key_id))
    if not rows:
        raise Problem("not-found", f"there is no key with the id {key_id!r}", field="id")
    return Key(**_shown(rows[0]))


def fault(key: Key) -> str | None:
    """Why a key is not valid any more, None if it is."""
    if key.revoked_at is not None:
        return "the key is revoked"
    if key.expires_at is not None and key.expires_at.timestamp() <= time.time():
        return "the key has expired"
    return None


def _now() -> int:
    return int(time.time() * 1000)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    times = {name: _milliseconds(row.get(name)) for name in ("created_at", "expires_at", "revoked_at")}
    return {"id": row["id"], "name": row["name"], "scopes": str(row["scopes"]).split(), **times}


def _milliseconds(value: Any) -> int | None:
    # Numbers come from D1 as floats.
    return None if value is None else int(value)
