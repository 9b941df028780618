"""`python -m local.server`: one local Cloudflare per state folder, on 127.0.0.1 only."""

import argparse
import fcntl
import json
import logging
import os
import random
import secrets
import shlex
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette

from infra.errors import CfragError
from local.api.guard import Credentials
from local.app import Local

DEFAULT_PORT = 8799
# A second Cloudflare on one machine gets one of these, below the usual ephemeral ports.
OTHER_PORTS = range(18_800, 19_800)
# Who only looks whether a server runs holds the lock for a moment too.
LOCK_ATTEMPTS = 5


class ServerError(CfragError):
    """The server can't start."""


def private_file(path: Path, text: str) -> None:
    """Write `path` in one step, readable by its owner only."""
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    partial.write_text(text)
    partial.replace(path)


def credentials(home: Path) -> Credentials:
    """Those of this state folder, made on first use. The Workers' token is new for each run."""
    path = home / "credentials.json"
    if not path.exists():
        made = {"accountId": secrets.token_hex(16), "token": secrets.token_urlsafe(30)}
        private_file(path, json.dumps(made))
    kept = json.loads(path.read_text())
    return Credentials(kept["accountId"], kept["token"], secrets.token_urlsafe(30))


def lock(home: Path) -> None:
    """Hold the state folder until this process is gone; raises `ServerError` when another holds it.

    The file is never closed here: only the end of the process gives the folder free.
    """
    descriptor = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    for attempt in range(LOCK_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError as error:
            if attempt == LOCK_ATTEMPTS - 1:
                raise ServerError(
                    f"a local Cloudflare already runs on {home}: `cfrag local status` shows it,"
                    " `cfrag local stop` ends it"
                ) from error
            time.sleep(0.1)
    os.truncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


def listen(home: Path, asked: int | None) -> socket.socket:
    """A socket on the port that was asked for, else on that of the last run, else on a free one.

    The port stays the same over restarts because clients keep the address. Raises `ServerError`.
    """
    path = home / "port"
    kept = int(path.read_text()) if path.exists() else None
    fixed = asked or kept
    for port in [fixed] if fixed else [DEFAULT_PORT, *random.sample(OTHER_PORTS, 50)]:
        if server := _bound(port):
            path.write_text(str(port))
            return server
    what = (
        f"port {fixed} of 127.0.0.1 is in use by another program: end it, or" if fixed else "no port is free:"
    )
    raise ServerError(f"{what} choose another with `cfrag local start --port N` or CFRAG_LOCAL_PORT")


def _bound(port: int) -> socket.socket | None:
    # Said to be TCP, or asyncio leaves Nagle's algorithm on: 40 ms for every answer.
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(("127.0.0.1", port))
        server.listen(2048)
    except OSError:
        server.close()
        return None
    return server


def announced(local: Local, path: Path, content: dict[str, Any]) -> Starlette:
    """The application, writing `path` when it is ready and removing it when it ends."""
    inner = local.app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with inner(app):
            private_file(path, json.dumps(content))
            try:
                yield
            finally:
                path.unlink(missing_ok=True)  # noqa: ASYNC240

    local.app.router.lifespan_context = lifespan
    return local.app


def run(home: Path, asked_port: int | None, cell_command: Sequence[str]) -> None:
    """Serve until SIGTERM or SIGINT, then stop every cell. `home` is the folder of CFRAG_HOME."""
    folder = home.resolve() / "local"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    lock(folder)
    (folder / "local.json").unlink(missing_ok=True)
    server = listen(folder, asked_port)
    port = server.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    who = credentials(folder)
    local = Local(folder, who, url, cell_command=cell_command)
    content = {
        "pid": os.getpid(),
        "port": port,
        "token": who.token,
        "accountId": who.account_id,
        "url": url,
    }
    app = announced(local, folder / "local.json", content)
    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=3,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn stops on these, then raises them again for the handlers from before.
        signal.signal(number, lambda *_: None)
    uvicorn.Server(config).run(sockets=[server])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m local.server", description=__doc__)
    default_home = os.environ.get("CFRAG_HOME", ".cfrag")
    parser.add_argument("--home", type=Path, default=Path(default_home), help="the folder of CFRAG_HOME")
    parser.add_argument("--port", type=int, default=os.environ.get("CFRAG_LOCAL_PORT"))
    parser.add_argument("--cell-command", default="", help="runs a cell file instead of the runtime host")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        run(options.home, options.port, shlex.split(options.cell_command))
    except ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
