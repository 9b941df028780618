"""The Cloudflare account that a plugin acts on, and its errors in words a person can act on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from infra.errors import CfragError

if TYPE_CHECKING:
    from cloudflare import APIStatusError, Cloudflare

T = TypeVar("T")

MAX_RETRIES = 4
"""Repeats of a call that the SDK makes on 408, 409, 429, 5xx and broken connections (0.5 to 8 s apart)."""
TIMEOUT_SECONDS = 60.0
PERMISSION_CODES = frozenset({9106, 9109, 10000, 10001})
_ENVIRONMENT = {
    "apiToken": "CLOUDFLARE_API_TOKEN",
    "accountId": "CLOUDFLARE_ACCOUNT_ID",
    "baseUrl": "CLOUDFLARE_BASE_URL",
}


class ApiFailure(CfragError):
    """A call that Cloudflare refused; `status` is 0 where no answer came."""

    def __init__(self, message: str, status: int, codes: frozenset[int]) -> None:
        super().__init__(message)
        self.status = status
        self.codes = codes

    @property
    def missing(self) -> bool:
        """The object does not exist: a deleted index answers 410 instead of 404."""
        return self.status in (404, 410)


class Submissions:
    """The order in which Vectorize accepted this plugin's changes of each index.

    Mutation ids have no order of their own, so that of two which are made at the same time is kept here.
    """

    def __init__(self) -> None:
        self._ids: dict[str, list[str]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    def one_at_a_time(self, index: str) -> asyncio.Lock:
        """To hold while a change is submitted and added."""
        return self._locks.setdefault(index, asyncio.Lock())

    def add(self, index: str, mutation: str) -> None:
        """Remember a change that was accepted after all the earlier ones."""
        self._ids.setdefault(index, []).append(mutation)

    def since(self, index: str, mutation: str) -> list[str]:
        """`mutation` and those that were accepted after it."""
        known = self._ids.get(index, [])
        return known[known.index(mutation) :] if mutation in known else [mutation]

    def before(self, index: str, mutation: str) -> list[str]:
        """Those that were accepted before `mutation`."""
        known = self._ids.get(index, [])
        return known[: known.index(mutation)] if mutation in known else []


class Account:
    """One account; the SDK is imported and the client made on the first call."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Take `apiToken`, `accountId` and `baseUrl` from `settings`, else from the environment."""
        chosen = {key: settings.get(key) or os.environ.get(name) for key, name in _ENVIRONMENT.items()}
        self._token = chosen["apiToken"]
        self._account_id = chosen["accountId"]
        self.base_url = chosen["baseUrl"]
        self._client: Cloudflare | None = None
        self.submissions = Submissions()
        # By index, its metadata indexes ("property:type") that were made over vectors no database knew of.
        self.refilled: dict[str, set[str]] = {}
        # Indexes of this run: nobody else makes metadata indexes in them, so none has to be looked for.
        self.made: set[str] = set()

    @property
    def id(self) -> str:
        """The account's id. Raises CfragError where none is configured."""
        if not self._account_id:
            raise CfragError(
                "no Cloudflare account: set cf-rag:accountId in the stack's config or CLOUDFLARE_ACCOUNT_ID"
            )
        return self._account_id

    def client(self) -> Cloudflare:
        """The official client. Raises CfragError where no token is configured."""
        if self._client is None:
            if not self._token:
                raise CfragError(
                    "no Cloudflare API token: run `pulumi config set --secret cloudflare:apiToken` "
                    "or set CLOUDFLARE_API_TOKEN"
                )
            from cloudflare import Cloudflare

            self._client = Cloudflare(
                api_token=self._token,
                base_url=self.base_url,
                max_retries=MAX_RETRIES,
                timeout=TIMEOUT_SECONDS,
            )
        return self._client

    def close(self) -> None:
        """Close the client's connections, if it has any."""
        if self._client is not None:
            self._client.close()
        self._client = None

    async def call(self, doing: str, function: Callable[[Cloudflare], T]) -> T:
        """Run `function` on the client in a thread; `doing` says what for in an error.

        Raises ApiFailure for every refusal and every connection that fails.
        """
        return await asyncio.to_thread(self._call, doing, function)

    def _call(self, doing: str, function: Callable[[Cloudflare], T]) -> T:
        client = self.client()
        import cloudflare

        try:
            return function(client)
        except cloudflare.APIStatusError as error:
            raise self._refused(doing, error) from None
        except cloudflare.APIConnectionError as error:
            reason = error.__cause__ or error
            raise ApiFailure(
                f"cannot {doing}: no answer from {client.base_url} ({reason}); "
                "is the address right and the service running?",
                0,
                frozenset(),
            ) from None

    def _refused(self, doing: str, error: APIStatusError) -> ApiFailure:
        faults = _faults(error.body)
        codes = frozenset(code for code, _ in faults)
        said = "; ".join(f"{message} [{code}]" for code, message in faults) or error.message
        hint = self._hint(error.status_code, codes, said)
        if wait := error.response.headers.get("retry-after"):
            hint = f"{hint} (Retry-After: {wait})" if hint else f"Retry-After: {wait}"
        message = f"cannot {doing}: {said} (HTTP {error.status_code})"
        return ApiFailure(f"{message}. {hint}" if hint else message, error.status_code, codes)

    def _hint(self, status: int, codes: frozenset[int], said: str) -> str:
        account = self._account_id
        if "not_entitled" in said or "not entitled" in said:
            return (
                f"The plan of account {account} does not include this: check the plan, or use another account"
            )
        if status in (401, 403) or codes & PERMISSION_CODES:
            return (
                f"The API token is not valid or lacks a permission on account {account}: it needs to edit "
                "Vectorize, D1, Queues and Workers Scripts"
            )
        if status == 429:
            return "The account's budget of 1,200 API calls in 5 minutes is used up: wait and run it again"
        return ""


def _faults(body: Any) -> list[tuple[int, str]]:
    errors = body.get("errors") if isinstance(body, Mapping) else None
    if not isinstance(errors, list):
        return []
    return [
        (int(item.get("code") or 0), str(item.get("message", "")))
        for item in errors
        if isinstance(item, Mapping)
    ]
