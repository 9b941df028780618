"""Errors that carry an HTTP status: RFC 9457 problem details, mapped to a response in one place."""

from typing import Any, NamedTuple

_URN = "urn:problem-type:cfrag:"


class ProblemType(NamedTuple):
    """One kind of problem: what every occurrence of it shares."""

    status: int
    title: str


TYPES: dict[str, ProblemType] = {
    "invalid-json": ProblemType(400, "The body is not valid JSON"),
    "invalid-request": ProblemType(400, "The request can't be read"),
    "unauthorized": ProblemType(401, "No valid credentials"),
    "forbidden": ProblemType(403, "Not allowed"),
    "not-found": ProblemType(404, "Not found"),
    "method-not-allowed": ProblemType(405, "Method not allowed"),
    "conflict": ProblemType(409, "Not possible in the present state"),
    "too-large": ProblemType(413, "Too large"),
    "unsupported-media-type": ProblemType(415, "Unsupported media type"),
    "invalid-value": ProblemType(422, "A value is not acceptable"),
    "rate-limited": ProblemType(429, "Too many requests"),
    "internal": ProblemType(500, "Internal error"),
    "upstream": ProblemType(502, "A service behind this one failed"),
    "unavailable": ProblemType(503, "Not available at the moment"),
    "closed": ProblemType(503, "The API is closed"),
    "dims-mismatch": ProblemType(503, "Embedding dimensions don't match the index"),
}


class Problem(Exception):
    """A failure with a status, thrown anywhere below the routes and never turned into a response there.

    `type` is a key of `TYPES`; `detail` is one sentence for the caller that names the thing, the value, the
    limit and the way out, and never holds document text. `field` is a path into the request
    (`metadata.year`), `limit` and `actual` the numbers behind a refusal, `extra` further members.
    """

    def __init__(
        self,
        type: str,
        detail: str,
        *,
        status: int | None = None,
        field: str | None = None,
        limit: Any = None,
        actual: Any = None,
        retry_after: int | None = None,
        headers: dict[str, str] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        kind = TYPES[type]
        self.type = type
        self.title = kind.title
        self.status = status if status is not None else kind.status
        self.detail = detail
        self.field = field
        self.limit = limit
        self.actual = actual
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})
        # Which document of several it is about, where that is known.
        self.document_id: str | None = None
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later, so that a queue should retry it."""
        return self.status >= 500 or self.status in (409, 429)

    def to_dict(self, request_id: str | None = None) -> dict[str, Any]:
        """The problem as JSON: type, title, status, detail and those optional members that are known."""
        optional = {"field": self.field, "limit": self.limit, "actual": self.actual, "requestId": request_id}
        return {
            "type": _URN + self.type,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **{name: value for name, value in optional.items() if value is not None},
            **self.extra,
        }


def invalid_value(detail: str, *, field: str, limit: Any = None, actual: Any = None) -> Problem:
    """422: a well-formed request holds a value that can never be accepted."""
    return Problem("invalid-value", detail, field=field, limit=limit, actual=actual)


def too_large(what: str, *, field: str | None, limit: int, actual: int, unit: str = "bytes") -> Problem:
    """413: `what` has more `unit` than the platform or this service takes."""
    detail = f"{what} has {actual} {unit}; at most {limit} are accepted"
    return Problem("too-large", detail, field=field, limit=limit, actual=actual)


def unknown_document(doc_id: str) -> Problem:
    """404: there is no document with this id."""
    return Problem("not-found", f"there is no document with the id {doc_id!r}", field="id")


def conflict(detail: str, *, field: str | None = None, extra: dict[str, Any] | None = None) -> Problem:
    """409: not possible now, possible later; `extra` may hold the progress."""
    return Problem("conflict", detail, field=field, extra=extra)


def upstream(service: str, error: BaseException | str) -> Problem:
    """502: a binding (`service` is "Workers AI", "Vectorize", "D1" or "Queues") failed after retries."""
    return Problem("upstream", f"{service} failed: {str(error)[:300]}")


def unavailable(
    detail: str, *, retry_after: int | None = None, extra: dict[str, Any] | None = None
) -> Problem:
    """503: try again after `retry_after` seconds."""
    return Problem("unavailable", detail, retry_after=retry_after, extra=extra)


def dims_mismatch(detail: str) -> Problem:
    """503: the configured dimensions are not those of the stored vectors; an operator must act."""
    return Problem("dims-mismatch", detail)
