"""The official client of major version 2, through the tools: prints one JSON object."""

# Runs in an environment of its own, which has this package.
# mypy: disable-error-code="import-not-found"

import asyncio
import json
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

DOCUMENT = {"id": "mcp/two", "body": "The official client stored this."}


async def main(url: str, key: str, mode: str) -> None:
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60)
    async with http, Client(streamable_http_client(url, http_client=http), mode=mode) as client:
        tools = (await client.list_tools()).tools
        stored = await client.call_tool("ingest_doc", DOCUMENT)
        found = await client.call_tool("search_docs", {"query": DOCUMENT["body"], "topK": 1})
        missing = await client.call_tool("get_doc", {"id": "nope"})
        listed = await client.call_tool("list_docs", {})
        deleted = await client.call_tool("delete_doc", {"id": DOCUMENT["id"]})
        answer = {
            "version": client.protocol_version,
            "session": None,
            "tools": sorted(tool.name for tool in tools),
            "stored": stored.structured_content,
            "found": found.structured_content,
            "missing": missing.is_error,
            "listed": listed.structured_content,
            "deleted": deleted.structured_content,
        }
    print(json.dumps(answer))


asyncio.run(main(*sys.argv[1:]))
