"""Listings of vector ids: pages of a snapshot, held for as long as its cursor is valid."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from local import limits

CURSOR_SECONDS = 600


class _Snapshot(NamedTuple):
    uid: int
    ids: list[str]
    expires: float


class Snapshots:
    """Snapshots in memory: a restart makes a cursor expire, which clients must expect anyway."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._held: dict[str, _Snapshot] = {}

    def page(self, uid: int, count: int, cursor: str | None, ids: Callable[[], list[str]]) -> dict[str, Any]:
        """The page at `cursor`, or the first page of a new snapshot of `ids()`. Raises ApiError 40026."""
        self._forget_expired()
        if cursor is None:
            key, start = secrets.token_urlsafe(12), 0
            snapshot = _Snapshot(uid, ids(), self._clock() + CURSOR_SECONDS)
        else:
            key, _, at = cursor.partition(".")
            found = self._held.get(key)
            if found is None or found.uid != uid or not at.isdigit():
                raise limits.LIST_CURSOR()
            snapshot, start = found, int(at)
        end = start + count
        page = snapshot.ids[start:end]
        more = end < len(snapshot.ids)
        result: dict[str, Any] = {
            "count": len(page),
            "totalCount": len(snapshot.ids),
            "isTruncated": more,
            "vectors": [{"id": one} for one in page],
        }
        if more:
            self._held[key] = snapshot
            result["nextCursor"] = f"{key}.{end}"
            result["cursorExpirationTimestamp"] = (
                datetime.fromtimestamp(snapshot.expires, UTC).isoformat().replace("+00:00", "Z")
            )
        return result

    def _forget_expired(self) -> None:
        now = self._clock()
        self._held = {key: held for key, held in self._held.items() if held.expires > now}
