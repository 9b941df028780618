"""What the local Cloudflare listens with."""

import asyncio
import socket
from pathlib import Path

from local.server import listen


async def test_answers_are_sent_at_once(tmp_path: Path, free_port: int) -> None:
    """Nagle's algorithm would hold the second part of every answer back for 40 ms."""
    delayed: list[bool] = []
    asked = asyncio.Event()

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        option = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        delayed.append(not option)
        writer.close()
        asked.set()

    server = await asyncio.start_server(connected, sock=listen(tmp_path, free_port))
    async with server:
        _, writer = await asyncio.open_connection("127.0.0.1", free_port)
        await asyncio.wait_for(asked.wait(), 10)
        writer.close()
    assert delayed == [False]
