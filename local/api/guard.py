"""Who may call: this machine only, with the token, for the account, within the call budget."""

import hmac
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from infra.catalog import API_CALLS_PER_5_MIN
from local.envelope import ApiError, failed

HOSTS = {"127.0.0.1", "localhost"}
WINDOW_SECONDS = 300.0
ACCOUNT_PATH = re.compile(r"^/client/v4/accounts/([^/]+)")


@dataclass(frozen=True)
class Credentials:
    """`token` opens the REST API and the controls, `bindings_token` what running Workers call."""

    account_id: str
    token: str = field(repr=False)
    bindings_token: str = field(repr=False)


class Budget:
    """Cloudflare's limit on API calls: 1,200 in any five minutes of one user."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.enabled = False
        self.made = 0
        self.refused = 0
        self._clock = clock
        self._calls: deque[float] = deque()

    def spend(self) -> None:
        """Count one call; raises 429 with `Retry-After` (seconds) when there is none left."""
        now = self._clock()
        while self._calls and self._calls[0] <= now - WINDOW_SECONDS:
            self._calls.popleft()
        if self.enabled and len(self._calls) >= API_CALLS_PER_5_MIN.value:
            self.refused += 1
            wait = int(self._calls[0] + WINDOW_SECONDS - now) + 1
            raise ApiError(
                429,
                10429,
                "Rate limited. Please wait and consider throttling your request speed.",
                {"Retry-After": str(wait)},
            )
        self.made += 1
        self._calls.append(now)


class Guard:
    """ASGI middleware in front of everything."""

    def __init__(self, app: ASGIApp, credentials: Credentials, budget: Budget) -> None:
        self._app = app
        self._credentials = credentials
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(scope["path"], Headers(scope=scope))
            except ApiError as error:
                await failed(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, path: str, headers: Headers) -> None:
        if path.startswith("/__bindings/"):
            # The runtime calls this under a host name of its own.
            if not same(headers.get("x-cfrag-token", ""), self._credentials.bindings_token):
                raise ApiError(403, 10000, "Authentication error")
            return
        if host_name(headers.get("host", "")) not in HOSTS:
            # A web page that made its own name point here must not get in.
            raise ApiError(403, 10000, "This server answers to 127.0.0.1 and localhost only.")
        self._authenticate(path, headers.get("authorization", ""))
        if path.startswith("/client/v4/"):
            self._budget.spend()
            self._check_account(path)

    def _authenticate(self, path: str, header: str) -> None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() == "bearer" and same(token.strip(), self._credentials.token):
            return
        if path == "/client/v4/user/tokens/verify":
            raise ApiError(401, 1000, "Invalid API Token")
        raise ApiError(401, 10000, "Authentication error")

    def _check_account(self, path: str) -> None:
        match = ACCOUNT_PATH.match(path)
        if match is None or match[1] == self._credentials.account_id:
            return
        if not re.fullmatch(r"[0-9a-f]{32}", match[1]):
            raise no_route(path)
        raise ApiError(403, 10000, "Authentication error")


def no_route(path: str) -> ApiError:
    return ApiError(404, 7003, f"Could not route to {path}, perhaps your object identifier is invalid?")


def host_name(header: str) -> str:
    return header.rpartition(":")[0] if ":" in header else header


def same(given: str, wanted: str) -> bool:
    """Whether two tokens are equal, in time that tells nothing about either."""
    return hmac.compare_digest(given.encode(), wanted.encode())
