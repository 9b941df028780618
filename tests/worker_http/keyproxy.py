"""A proxy that adds an API key: the conformance runner sends no Authorization header."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

_HOP_BY_HOP = {"connection", "content-length", "transfer-encoding", "keep-alive"}


@contextmanager
def key_proxy(target: str, key: str) -> Iterator[str]:
    """The address of a server that passes everything on to `target` with the key."""
    client = httpx.Client(base_url=target, timeout=60)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            # Whitespace around a value is no part of it.
            given = [(name, value.strip()) for name, value in self.headers.items()]
            headers = [(name, value) for name, value in given if name.lower() not in _HOP_BY_HOP]
            headers.append(("Authorization", f"Bearer {key}"))
            answer = client.request(self.command, self.path, headers=headers, content=body)
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                if name.lower() not in _HOP_BY_HOP | {"content-encoding"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_DELETE = do_OPTIONS = handle_any

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        client.close()
