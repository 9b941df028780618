"""API keys: what a person asks for, and making one in D1 where no Worker runs."""

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from cfrag.connection import KEY_PREFIX
from cfrag.errors import InputError, Refused
from cfrag.stack_account import StackAccount

SCOPES = ("read", "write")
NAME_CHARS = 100  # as POST /v1/internal/keys takes it
_PERIOD = re.compile(r"([1-9]\d{0,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

# Over REST every parameter is a text. The id is random: a conflict is this very statement, sent again.
_ADD = """INSERT INTO api_keys (id, hash, name, scopes, created_at, expires_at)
VALUES (?1, ?2, ?3, ?4, CAST(?5 AS INTEGER), CAST(NULLIF(?6, '') AS INTEGER)) ON CONFLICT (id) DO NOTHING"""


@dataclass(frozen=True)
class KeyRequest:
    """A key to be made: `scopes` sorted, `expires_at` in UTC."""

    name: str
    scopes: tuple[str, ...]
    expires_at: datetime | None

    def to_json(self) -> dict[str, Any]:
        expires = _wire(self.expires_at) if self.expires_at else None
        return {"name": self.name, "scopes": list(self.scopes), "expiresAt": expires}


def key_request(name: str, scopes: Sequence[str], expires: str | None) -> KeyRequest:
    """The request for what a person typed. Raises InputError naming what is wrong with it."""
    if not name.strip() or len(name) > NAME_CHARS or not name.isprintable():
        raise InputError(f"--name must have 1 to {NAME_CHARS} printable characters; it has {len(name)}")
    if unknown := sorted(set(scopes) - set(SCOPES)):
        raise InputError(f'"{unknown[0]}" is no scope; there are: {", ".join(SCOPES)}')
    return KeyRequest(name, tuple(sorted(set(scopes))), parse_expiry(expires, datetime.now(UTC)))


def parse_expiry(text: str | None, now: datetime) -> datetime | None:
    """When `90d` (or minutes, hours, weeks), `2027-01-31` (UTC) or `2027-01-31T12:00+01:00` is."""
    if text is None:
        return None
    try:
        until = now + timedelta(**_period(text)) if _PERIOD.fullmatch(text) else _moment(text)
    except (ValueError, OverflowError):
        raise InputError(
            f'"{text}" is no expiry; write 90d (m, h, d or w), 2027-01-31 or 2027-01-31T12:00:00Z'
        ) from None
    if until <= now:
        raise InputError(f"--expires {text} is in the past")
    return until.astimezone(UTC).replace(microsecond=0)


def _period(text: str) -> dict[str, int]:
    return {_UNITS[text[-1]]: int(text[:-1])}


def _moment(text: str) -> datetime:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        day = date.fromisoformat(text)
        return datetime(day.year, day.month, day.day, tzinfo=UTC)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("without a time zone it is another moment on each machine")
    return moment


def mint_in_database(account: StackAccount, request: KeyRequest) -> dict[str, Any]:
    """A new key, put into the stack's database; answers as the Worker does. Its text is not stored."""
    if account.config.auth.mode != "keys":
        mode = account.config.auth.mode
        raise InputError(f'stack {account.stack} takes no API keys: its config says auth.mode "{mode}"')
    key, key_id, now = (
        KEY_PREFIX + secrets.token_urlsafe(32),
        f"key_{secrets.token_hex(8)}",
        datetime.now(UTC),
    )
    row = (
        key_id,
        hashlib.sha256(key.encode()).hexdigest(),
        request.name,
        " ".join(request.scopes),
        _milliseconds(now),
        _milliseconds(request.expires_at) if request.expires_at else "",
    )
    _insert(account, row)
    return {"id": key_id, **request.to_json(), "createdAt": _wire(now), "key": key}


def _insert(account: StackAccount, row: tuple[str, ...]) -> None:
    database = account.database()
    try:
        account.call(
            "add the key",
            lambda client: list(
                client.d1.database.query(database, account_id=account.id, sql=_ADD, params=list(row))
            ),
        )
    except Refused as refused:
        if "no such table" not in str(refused):
            raise
        raise InputError(
            f"{account.names.db} has no table for keys yet; run: pulumi up -s {account.stack}"
        ) from None


def _milliseconds(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1000))


def _wire(moment: datetime) -> str:
    """A time as the Worker writes it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
