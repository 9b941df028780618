"""The service's HTTP API, as the commands use it."""

import email.utils
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from cfrag.errors import Refused, Unreachable

BATCH_DOCUMENTS = 100  # POST /v1/ingest/batch takes no more
MAX_WAIT_SECONDS = 60.0
ATTEMPTS = 6
TIMEOUT_SECONDS = 120.0  # a batch waits for the embedding model
_NO_ANSWER = "is CFRAG_URL right, and does it run (on this machine: cfrag local start)?"


class Client:
    """Calls that are safe to repeat are: 429, 503 and lost connections are tried again."""

    def __init__(
        self,
        url: str,
        key: str | None,
        *,
        key_name: str | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.Client(
            base_url=url.rstrip("/"), headers=headers, timeout=TIMEOUT_SECONDS, transport=transport
        )
        self._url = url
        self._key_name = key_name
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._http.close()

    def ingest(self, documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """One result per document, in order; at most `BATCH_DOCUMENTS` of them."""
        results: list[dict[str, Any]] = self._call(
            "POST", "/v1/ingest/batch", {"documents": list(documents)}
        )["results"]
        return results

    def search(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        hits: list[dict[str, Any]] = self._call("POST", "/v1/search", request)["hits"]
        return hits

    def stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = self._call("GET", "/v1/stats")
        return stats

    def space(self) -> dict[str, Any]:
        """What documents and vectors are made of there, as of this moment."""
        space: dict[str, Any] = self._call("GET", "/v1/space")
        return space

    def documents(self, after: str | None, *, content: bool) -> list[dict[str, Any]]:
        """The next documents behind an id: 20 with their content, or the states of 100; none at the end."""
        start = f"&after={quote(after, safe='')}" if after is not None else ""
        page: dict[str, Any] = self._call("GET", f"/v1/docs?content={str(content).lower()}{start}")
        documents: list[dict[str, Any]] = page["documents"]
        return documents

    def document(self, doc_id: str) -> dict[str, Any] | None:
        """One document with its content, or None where there is no such document."""
        try:
            document: dict[str, Any] = self._call("GET", f"/v1/docs/{quote(doc_id, safe='')}")
        except Refused as refused:
            if refused.status != HTTPStatus.NOT_FOUND:
                raise
            return None
        return document

    def vectors(self, ids: Sequence[str]) -> dict[str, Any]:
        """Those of at most 20 vectors that can be read, and their space; needs the internal secret."""
        vectors: dict[str, Any] = self._call("POST", "/v1/internal/vectors", {"ids": list(ids)})
        return vectors

    def ingest_with_vectors(
        self, fingerprint: str, documents: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """As `ingest`, of documents that bring their `values`; needs the internal secret."""
        body = {"fingerprint": fingerprint, "documents": list(documents)}
        results: list[dict[str, Any]] = self._call("POST", "/v1/internal/import", body)["results"]
        return results

    def delete(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """One result per id, in order; at most `BATCH_DOCUMENTS` of them."""
        results: list[dict[str, Any]] = self._call("POST", "/v1/docs/delete", {"ids": list(ids)})["results"]
        return results

    def keys(self) -> list[dict[str, Any]]:
        """All API keys ever made, without their texts; needs the internal secret."""
        keys: list[dict[str, Any]] = self._call("GET", "/v1/internal/keys")["keys"]
        return keys

    def mint_key(self, request: dict[str, Any]) -> dict[str, Any]:
        """A new API key with its text. Tried once: a second try could make a second key."""
        minted: dict[str, Any] = self._call("POST", "/v1/internal/keys", request, attempts=1)
        return minted

    def revoke_key(self, key_id: str) -> dict[str, Any]:
        """The key, no longer valid; when it was revoked already, since when it has been."""
        path = f"/v1/internal/keys/{quote(key_id, safe='')}"
        revoked: dict[str, Any] = self._call("DELETE", path)
        return revoked

    def _call(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, attempts: int = ATTEMPTS
    ) -> Any:
        """The decoded answer. Raises Refused for an error status, Unreachable where there is no answer."""
        for attempt in range(1, attempts + 1):
            last = attempt == attempts
            try:
                response = self._http.request(method, path, json=body)
            except httpx.TransportError as error:
                if last or isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol):
                    raise Unreachable(
                        f"no answer from {self._url}: {str(error) or type(error).__name__}; {_NO_ANSWER}"
                    ) from None
                self._sleep(backoff(attempt))
                continue
            wait = None if last else wait_before_retry(response, attempt)
            if wait is None:
                return self._decoded(response)
            self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _decoded(self, response: httpx.Response) -> Any:
        if response.is_success:
            try:
                return response.json()
            except ValueError:
                raise Unreachable(f"{self._url} is not a cfrag service: its answer is no JSON") from None
        way_out = ""
        if response.status_code == HTTPStatus.UNAUTHORIZED and self._key_name:
            way_out = f"; {self._key_name} must hold a key of this service: cfrag keys mint makes one"
        raise Refused(describe(response) + way_out, response.status_code)


def wait_before_retry(response: httpx.Response, attempt: int) -> float | None:
    """Seconds to wait before the call is made again, or None where its answer stands.

    A 503 that the service explains without naming a time is a state that waiting doesn't end.
    """
    if response.status_code not in (429, 503):
        return None
    asked = retry_after(response.headers.get("retry-after"), datetime.now(UTC))
    if asked is not None:
        return min(asked, MAX_WAIT_SECONDS)
    explained = response.headers.get("content-type", "").startswith("application/problem+json")
    return None if response.status_code == 503 and explained else backoff(attempt)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds from a Retry-After header, which holds seconds or an HTTP date."""
    if value is None:
        return None
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, (email.utils.parsedate_to_datetime(value) - now).total_seconds())
    except (TypeError, ValueError):
        return None


def backoff(attempt: int) -> float:
    return min(0.5 * 2.0 ** (attempt - 1), MAX_WAIT_SECONDS)


def describe(response: httpx.Response) -> str:
    """An error answer as one line; problem details (RFC 9457) where the service gave them."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or "title" not in problem:
        return f"HTTP {response.status_code} {response.reason_phrase} from {response.request.url}"
    return describe_problem(problem)


def describe_problem(problem: dict[str, Any]) -> str:
    """`title: detail (field …, request …)` of a problem object."""
    title, detail = problem.get("title", "failed"), problem.get("detail")
    line = f"{title}: {detail}" if detail else str(title)
    extras = [
        f"{label} {problem[key]}"
        for key, label in (("field", "field"), ("requestId", "request"))
        if problem.get(key)
    ]
    return f"{line} ({', '.join(extras)})" if extras else line
