"""Who may do what: bearer tokens, compared as digests; without a secret the API is closed."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Literal

from fastapi import Depends
from fastapi.openapi.models import HTTPBearer as BearerModel
from fastapi.security.base import SecurityBase
from starlette.requests import Request

from rag import keys, settings
from rag.errors import Problem
from rag.logs import log

Scope = Literal["read", "write", "internal"]

# A shorter one could be guessed; 32 random bytes can't.
MIN_SECRET_BYTES = 32
_SECRETS = ("INTERNAL_API_SECRET", "INTERNAL_API_SECRET_PREVIOUS")
# The form of a key; nothing else is looked up.
_KEY = re.compile(rb"pi_[A-Za-z0-9_-]{32,128}")
_BEARER = re.compile(rb"bearer +([^ ]+) *", re.IGNORECASE)


@dataclass(frozen=True)
class Caller:
    """Who is calling: a name for the log and what it may do."""

    name: str
    scopes: frozenset[str]


INTERNAL = Caller("internal", frozenset({"read", "write", "internal"}))


def digest(token: bytes) -> bytes:
    """What tokens are compared by: equal lengths, so that the comparison tells nothing about the secret's."""
    return sha256(token).digest()


def secrets_of(env: Any) -> list[bytes]:
    """Digests of the internal secrets in force. Raises the 503 that keeps the API closed without one."""
    found = [getattr(env, name, None) for name in _SECRETS]
    usable = [each.encode() for each in found if isinstance(each, str)]
    usable = [each for each in usable if len(each) >= MIN_SECRET_BYTES]
    if not usable or not isinstance(found[0], str) or len(found[0].encode()) < MIN_SECRET_BYTES:
        log(
            "error", f"INTERNAL_API_SECRET is missing or under {MIN_SECRET_BYTES} bytes: the API stays closed"
        )
        raise Problem("closed", "the service has no usable internal secret; its log says what to set")
    return [digest(each) for each in usable]


def is_one_of(digests: list[bytes], token: bytes) -> bool:
    """Whether the token has one of these digests; every one is compared, whichever fits."""
    presented = digest(token)
    return any([compare_digest(presented, each) for each in digests])


def bearer(request: Request) -> bytes | None:
    """The token of the one Authorization header, as bytes: it may hold anything."""
    headers = [value for name, value in request.scope["headers"] if name == b"authorization"]
    match = _BEARER.fullmatch(headers[0]) if len(headers) == 1 else None
    return match[1] if match else None


async def authenticate(request: Request) -> Caller:
    """The caller. Raises 401 for a missing or unknown token, 429, and 503 where the API is closed."""
    if (ask := request.scope.get("rag.authorize")) is not None:
        return await _known_to_host(ask, request)
    env, token = request.scope["env"], bearer(request)
    known = secrets_of(env)
    if token is None:
        raise unauthorized("send Authorization: Bearer <token>")
    if is_one_of(known, token):
        return INTERNAL
    # Before the look-up, so that guessing costs no D1 query, and then per key.
    await limit_rate(env, f"client:{request.headers.get('cf-connecting-ip', '')}")
    caller = await _key_holder(env, token)
    await limit_rate(env, f"key:{caller.name}")
    return caller


async def _known_to_host(ask: Callable[[Request], Awaitable[Caller | None]], request: Request) -> Caller:
    caller = await ask(request)
    if caller is None:
        raise unauthorized("the caller is not known here")
    return caller


async def _key_holder(env: Any, token: bytes) -> Caller:
    if settings.AUTH_MODE != "keys" or not _KEY.fullmatch(token):
        raise unauthorized("the token is not valid", invalid=True)
    key = await keys.find(env.DB, token.decode())
    if key is None:
        raise unauthorized("the token is not valid", invalid=True)
    if fault := keys.fault(key):
        raise unauthorized(fault, invalid=True)
    return Caller(key.id, frozenset(key.scopes))


async def limit_rate(env: Any, key: str) -> None:
    """Count a request under `key`. Raises the 429 if there were too many, where the config sets a limit."""
    limiter = getattr(env, "RATE_LIMIT", None)
    if settings.RATE_LIMIT is None or limiter is None:
        return
    outcome = await limiter.limit({"key": key})
    if not outcome["success"]:
        period = settings.RATE_PERIOD
        detail = f"more than {settings.RATE_LIMIT} requests in {period} seconds"
        raise Problem("rate-limited", detail, limit=settings.RATE_LIMIT, retry_after=period)


def unauthorized(detail: str, *, invalid: bool = False) -> Problem:
    """401 with the challenge that RFC 6750 asks for."""
    challenge = f'Bearer realm="{settings.NAME}"' + (', error="invalid_token"' if invalid else "")
    return Problem("unauthorized", detail, headers={"WWW-Authenticate": challenge})


def require_scope(caller: Caller, scope: Scope) -> None:
    """Raises the 403 that names the missing scope."""
    if scope in caller.scopes:
        return
    challenge = f'Bearer realm="{settings.NAME}", error="insufficient_scope", scope="{scope}"'
    detail = f'this needs the scope "{scope}"; the key has {", ".join(sorted(caller.scopes)) or "none"}'
    raise Problem("forbidden", detail, headers={"WWW-Authenticate": challenge}, extra={"scope": scope})


class Require(SecurityBase):
    """A dependency that lets a caller with the scope pass, and that the API description shows."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.scheme_name = "bearer"
        self.model = BearerModel(description="An API key, or the internal secret.")

    async def __call__(self, request: Request) -> Caller:
        caller = request.scope.get("rag.caller")
        if not isinstance(caller, Caller):
            caller = request.scope["rag.caller"] = await authenticate(request)
        require_scope(caller, self.scope)
        return caller


def require_auth(scope: Literal["read", "write"]) -> Any:
    """For a route's `dependencies`: only callers with this scope."""
    return Depends(Require(scope))


def require_internal_secret() -> Any:
    """For a route's `dependencies`: only callers with the internal secret."""
    return Depends(Require("internal"))
