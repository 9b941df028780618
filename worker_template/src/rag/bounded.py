"""A request whose body ends just after the size limit: the adapter would read all of it into memory."""

from typing import Any

from rag.settings import BODY_BYTES


class Bounded:
    """What the adapter needs of a request."""

    def __init__(self, request: Any) -> None:
        self.method = request.method
        self.url = request.url
        self.headers = list(request.headers.items())
        declared = request.headers.get("content-length") or ""
        fits = not declared.isdecimal() or int(declared) <= BODY_BYTES
        self.body = _some_of(request.body) if request.body and fits else None


async def _some_of(body: Any) -> Any:
    size = 0
    async for chunk in body:
        size += chunk.byteLength
        # What is beyond is read and dropped: unread, it would break the connection before the answer is read.
        if size - chunk.byteLength <= BODY_BYTES:
            yield chunk
