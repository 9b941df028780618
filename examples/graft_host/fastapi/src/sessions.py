"""Who is shopping: the host's own way to know its callers."""

from collections.abc import Collection
from typing import Any

# A real shop looks these up; what matters here is that they are none of the service's keys.
SESSIONS = {"clerk-7": {"read", "write"}, "customer-12": {"read"}}


async def scopes_of(request: Any) -> Collection[str] | None:
    """What the caller may do with documents; nothing for a session that is not known."""
    return SESSIONS.get(request.headers.get("x-session", ""))
