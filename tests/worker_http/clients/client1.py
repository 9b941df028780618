"""The official client of major version 1, through the tools: prints one JSON object."""

# Runs in an environment of its own, which has this package.
# mypy: disable-error-code="import-not-found"

import asyncio
import json
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

DOCUMENT = {"id": "mcp/one", "body": "The official client stored this."}


async def main(url: str, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        streamablehttp_client(url, headers=headers) as (read, write, session_id),
        ClientSession(read, write) as session,
    ):
        agreed = await session.initialize()
        await session.send_ping()
        tools = (await session.list_tools()).tools
        stored = await session.call_tool("ingest_doc", DOCUMENT)
        found = await session.call_tool("search_docs", {"query": DOCUMENT["body"], "topK": 1})
        missing = await session.call_tool("get_doc", {"id": "nope"})
        listed = await session.call_tool("list_docs", {})
        deleted = await session.call_tool("delete_doc", {"id": DOCUMENT["id"]})
        answer = {
            "version": agreed.protocolVersion,
            "session": session_id(),
            "tools": sorted(tool.name for tool in tools),
            "stored": stored.structuredContent,
            "found": found.structuredContent,
            "missing": missing.isError,
            "listed": listed.structuredContent,
            "deleted": deleted.structuredContent,
        }
    print(json.dumps(answer))


asyncio.run(main(*sys.argv[1:]))
