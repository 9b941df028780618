"""What a deployed service must do, tried out from outside with a document of its own."""

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import httpx

from cfrag.client import describe
from cfrag.connection import KEY_PREFIX

Status = Literal["ok", "failed", "skipped"]
Headers = dict[str, str]
Waiting = Callable[[str, float], None]

PROBE = "cfrag-smoke-"
LEFT_BEHIND_SECONDS = 3600  # a probe as old as this belongs to no run that goes on
CALL_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_MCP_VERSION = "2025-11-25"


@dataclass(frozen=True)
class Result:
    """One check: what was seen, or what is wrong, and how long it took."""

    check: str
    status: Status
    detail: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Failed(Exception):
    """The service does not do what it must; the message says what it did."""


class Skipped(Exception):
    """The check does not apply; the message says why."""


class Smoke:
    """`wait_seconds` bounds each wait for Vectorize; `waiting` is told for what and how long still."""

    def __init__(self, url: str, key: str, wait_seconds: float, waiting: Waiting) -> None:
        self._key = key
        self._wait_seconds = wait_seconds
        self._waiting = waiting
        self._authorized = {"authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=url.rstrip("/"), timeout=CALL_SECONDS)
        self.probe = f"{PROBE}{int(time.time())}-{secrets.token_hex(6)}"
        # Nobody who searches as usual sees it: it is inactive.
        self._document = {
            "id": self.probe,
            "title": "Probe of cfrag smoke",
            "body": f"Written by cfrag smoke to see that documents can be found. Probe {self.probe}.",
            "active": False,
        }
        self._written = False

    def clean_up(self) -> Result | None:
        """Remove the probe where it may still be there; to be called last, whatever happened before."""
        try:
            if not self._written:
                return None
            return _tried("clean up", lambda: f"the probe is {self._removed().get('status')}", "")
        finally:
            self._http.close()

    def run(self) -> Iterator[Result]:
        """The checks, one by one."""
        alone = (
            ("health", self._health),
            ("no token is refused", self._no_token),
            ("a wrong token is refused", self._wrong_token),
        )
        on_the_probe = (
            ("ingest", self._ingest),
            ("search finds it", self._search),
            ("get shows it", self._get),
            ("delete", self._delete),
            ("it is gone", self._gone),
        )
        reason = ""
        for name, check in alone:
            result = _tried(name, check, reason)
            yield result
            if name == "health" and result.status == "failed":
                reason = "the service does not answer"
        usable = reason
        for name, check in on_the_probe:
            result = _tried(name, check, reason)
            yield result
            if name == "ingest" and result.status == "failed":
                reason = "there is no document"
        yield _tried("mcp", self._mcp, usable)

    def _health(self) -> str:
        answer = self._call("GET", "/health", headers={})
        if _json(answer).get("status") != "ok":
            raise Failed(f"/health says {answer.text[:200]}")
        return "the Worker answers"

    def _no_token(self) -> str:
        return self._refused({})

    def _wrong_token(self) -> str:
        return self._refused({"authorization": f"Bearer {KEY_PREFIX}{secrets.token_urlsafe(32)}"})

    def _refused(self, headers: Headers) -> str:
        answer = self._send("GET", "/v1/stats", headers=headers)
        if answer.status_code != 401:
            raise Failed(f"GET /v1/stats answers {answer.status_code} instead of 401")
        if not answer.headers.get("www-authenticate", "").startswith("Bearer"):
            raise Failed("the 401 has no WWW-Authenticate: Bearer")
        return "401"

    def _ingest(self) -> str:
        # Before the call: an answer that is lost on the way may have followed a write.
        self._written = True
        result = _json(self._call("POST", "/v1/ingest", self._document))
        if result.get("status") != "indexed":
            raise Failed(f'a new document is "{result.get("status")}" instead of "indexed"')
        return f"{self.probe}, {result.get('embedModel')}"

    def _search(self) -> str:
        started = time.monotonic()
        self._until("search shows it", lambda: self.probe in self._found())
        return f"after {time.monotonic() - started:.0f} s"

    def _get(self) -> str:
        self._until("it can be read", lambda: self._stored().get("state") == "indexed")
        stored = self._stored()
        if any(stored.get(name) != self._document[name] for name in ("title", "body", "active")):
            raise Failed("what is stored is not what was sent")
        return "title and text as sent"

    def _delete(self) -> str:
        status = self._removed().get("status")
        if status != "deleted":
            raise Failed(f'the probe is "{status}" instead of "deleted"')
        self._written = False
        return str(status)

    def _gone(self) -> str:
        if (answer := self._send("GET", f"/v1/docs/{self.probe}")).status_code != 404:
            raise Failed(f"GET of it answers {answer.status_code} instead of 404")
        self._until("search shows it no more", lambda: self.probe not in self._found())
        self._remove_leftovers()
        return "404, and not found by search"

    def _mcp(self) -> str:
        client = {"name": "cfrag-smoke", "version": "1"}
        hello = {"protocolVersion": _MCP_VERSION, "capabilities": {}, "clientInfo": client}
        agreed = self._rpc("initialize", hello, {})
        version = str(agreed.get("protocolVersion"))
        tools = self._rpc("tools/list", {}, {"mcp-protocol-version": version}).get("tools", [])
        names = [tool.get("name") for tool in tools]
        if "search_docs" not in names:
            raise Failed(f"the tools are {names}, without search_docs: has the key the scope read?")
        return f"{version}, {len(names)} tools"

    def _rpc(self, method: str, params: dict[str, Any], headers: Headers) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        accepted = {"accept": "application/json, text/event-stream"}
        answer = self._send("POST", "/mcp", message, headers={**self._authorized, **accepted, **headers})
        if answer.status_code == 404:
            raise Skipped("not served here")
        if answer.status_code == 401 and not self._key.startswith(KEY_PREFIX):
            raise Skipped("takes API keys only, and this is the internal secret; see cfrag keys mint")
        if not answer.is_success:
            raise Failed(describe(answer))
        body = _json(answer)
        if not isinstance(result := body.get("result"), dict):
            raise Failed(f"{method} answers {body.get('error')}")
        return result

    def _found(self) -> list[str]:
        request = {"query": self._document["body"], "topK": 10, "active": False}
        return [str(hit["id"]) for hit in _json(self._call("POST", "/v1/search", request))["hits"]]

    def _stored(self) -> dict[str, Any]:
        return _json(self._call("GET", f"/v1/docs/{self.probe}"))

    def _removed(self, doc_id: str | None = None) -> dict[str, Any]:
        return _json(self._call("DELETE", f"/v1/docs/{doc_id or self.probe}"))

    def _remove_leftovers(self) -> None:
        """Probes of earlier runs that were killed."""
        for doc_id in self._found():
            born = doc_id.removeprefix(PROBE).partition("-")[0]
            if doc_id.startswith(PROBE) and born.isdigit() and time.time() - int(born) > LEFT_BEHIND_SECONDS:
                self._removed(doc_id)

    def _until(self, what: str, done: Callable[[], bool]) -> None:
        """Ask again and again. Raises Failed when the time is up."""
        end = time.monotonic() + self._wait_seconds
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                raise Failed(f"not within {self._wait_seconds:.0f} s (--wait)")
            self._waiting(what, left)
            time.sleep(min(_PAUSE_SECONDS, left))

    def _call(
        self, method: str, path: str, body: Any = None, headers: Headers | None = None
    ) -> httpx.Response:
        """An answer that is a success. Raises Failed with the service's reason for any other."""
        answer = self._send(method, path, body, headers)
        if not answer.is_success:
            raise Failed(describe(answer))
        return answer

    def _send(
        self, method: str, path: str, body: Any = None, headers: Headers | None = None
    ) -> httpx.Response:
        """Any answer, with the key unless other headers are given. Raises Failed where there is none."""
        sent = self._authorized if headers is None else headers
        try:
            return self._http.request(method, path, json=body, headers=sent)
        except httpx.TransportError as error:
            raise Failed(f"no answer: {str(error) or type(error).__name__}") from None


def _tried(name: str, check: Callable[[], str], reason: str) -> Result:
    """The check's result; skipped without a try where there is a reason."""
    if reason:
        return Result(name, "skipped", reason, 0.0)
    started = time.monotonic()
    status: Status = "ok"
    try:
        detail = check()
    except Failed as failed:
        status, detail = "failed", str(failed)
    except Skipped as skipped:
        status, detail = "skipped", str(skipped)
    return Result(name, status, detail, round(time.monotonic() - started, 2))


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Failed(f"the answer of {answer.request.url.path} is no JSON object: is this a cfrag service?")
    return body
