"""MCP: three protocol versions without sessions, tools by scope, and what is refused how."""

import base64
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from .conftest import BEARER, Client, connect
from .engines import SECRET
from .loading import rendered

OLD = ["2025-06-18", "2025-11-25"]
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
READ = {"search_docs", "get_doc", "list_docs", "get_stats"}
WRITE = {"ingest_doc", "delete_doc"}
TUPLE = {"id": "a", "body": "Tuples are immutable.", "metadata": {"words": 3}}


async def minted(client: Client, *scopes: str) -> str:
    answer = await client.post("/v1/internal/keys", json={"name": "mcp", "scopes": scopes})
    return str(answer.json()["key"])


@pytest.fixture
async def key(client: Client) -> str:
    return await minted(client, "read", "write")


@pytest.fixture
async def agent(env: SimpleNamespace, key: str) -> AsyncIterator[Client]:
    """A client with a key that reads and writes."""
    async with connect(rendered(), env, Authorization=f"Bearer {key}") as opened:
        yield opened


def message(method: str, params: dict[str, Any] | None = None, version: str = MODERN) -> dict[str, Any]:
    params = dict(params or {})
    if version == MODERN:
        params["_meta"] = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def headers_of(body: dict[str, Any], version: str) -> dict[str, str]:
    headers = {"MCP-Protocol-Version": version, "Accept": "application/json, text/event-stream"}
    if version == MODERN:
        headers["Mcp-Method"] = body["method"]
        if "name" in body["params"]:
            headers["Mcp-Name"] = body["params"]["name"]
    return headers


async def ask(
    client: Client, method: str, params: dict[str, Any] | None = None, version: str = MODERN
) -> Any:
    body = message(method, params, version)
    answer = await client.post("/mcp", json=body, headers=headers_of(body, version))
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["id"] == 1
    return answer.json()["result"]


async def tool(client: Client, name: str, arguments: Any = None, version: str = MODERN) -> Any:
    return await ask(client, "tools/call", {"name": name, "arguments": arguments or {}}, version)


def error_of(answer: httpx.Response) -> tuple[int, int]:
    return answer.status_code, answer.json()["error"]["code"]


# -- versions -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [(OLD[0], OLD[0]), (OLD[1], OLD[1]), ("2024-11-05", OLD[1]), (MODERN, OLD[1]), ("2099-01-01", OLD[1])],
)
async def test_the_handshake_agrees_on_a_version(agent: Client, asked: str, agreed: str) -> None:
    params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = message("initialize", params, OLD[0])
    answer = await agent.post("/mcp", json=body)
    result = answer.json()["result"]
    assert result["protocolVersion"] == agreed
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "pydocs"
    assert "mcp-session-id" not in answer.headers


async def test_the_newest_version_is_discovered(agent: Client) -> None:
    result = await ask(agent, "server/discover")
    assert result["supportedVersions"] == [MODERN]
    assert result["resultType"] == "complete"
    assert result["_meta"][META + "serverInfo"]["name"] == "pydocs"


@pytest.mark.parametrize("version", [*OLD, MODERN])
async def test_every_message_is_answered_by_a_fresh_worker(
    env: SimpleNamespace, key: str, version: str
) -> None:
    """Nothing is kept from one request to the next: another isolate, without a handshake, answers too."""
    other = rendered(docsPublic=True)
    async with connect(other, env, Authorization=f"Bearer {key}") as elsewhere:
        assert (await tool(elsewhere, "get_stats", version=version))["structuredContent"]["dims"] == 768


@pytest.mark.parametrize("version", OLD)
async def test_ping_and_notifications_of_the_older_versions(agent: Client, version: str) -> None:
    assert await ask(agent, "ping", version=version) == {}
    notified = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answer = await agent.post("/mcp", json=notified, headers={"MCP-Protocol-Version": version})
    assert (answer.status_code, answer.content) == (202, b"")
    responded = {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert (await agent.post("/mcp", json=responded)).status_code == 202


async def test_older_results_have_nothing_of_the_newest(agent: Client) -> None:
    for version in OLD:
        listed = await ask(agent, "tools/list", version=version)
        assert listed.keys() == {"tools"}
        called = await tool(agent, "get_stats", version=version)
        assert called.keys() == {"content", "structuredContent", "isError"}


@pytest.mark.parametrize("version", ["2025-03-26", "2024-11-05", "2099-01-01", "x"])
async def test_an_unknown_version_is_told_the_known_ones(agent: Client, version: str) -> None:
    answer = await agent.post(
        "/mcp", json=message("ping", version=OLD[0]), headers={"MCP-Protocol-Version": version}
    )
    assert error_of(answer) == (400, -32022)
    assert answer.json()["error"]["data"] == {"supported": [MODERN], "requested": version}


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "nope", "subscriptions/listen"])
async def test_a_method_that_the_newest_version_lacks_is_a_404(agent: Client, method: str) -> None:
    body = message(method)
    answer = await agent.post("/mcp", json=body, headers=headers_of(body, MODERN))
    assert error_of(answer) == (404, -32601)


@pytest.mark.parametrize("method", ["server/discover", "resources/list", "prompts/list", "nope"])
async def test_a_method_that_older_versions_lack_is_an_error(agent: Client, method: str) -> None:
    answer = await agent.post("/mcp", json=message(method, version=OLD[1]))
    assert error_of(answer) == (200, -32601)


# -- the newest version's envelope ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"Mcp-Method": "tools/call"}, -32020),
        ({"Mcp-Method": None}, -32020),
        ({"MCP-Protocol-Version": None}, -32020),
        ({"MCP-Protocol-Version": OLD[1]}, None),
    ],
)
async def test_headers_have_to_agree_with_the_body(
    agent: Client, changed: dict[str, str | None], code: int | None
) -> None:
    body = message("tools/list")
    headers = {**headers_of(body, MODERN), **changed}
    answer = await agent.post("/mcp", json=body, headers={k: v for k, v in headers.items() if v})
    if code is None:
        assert answer.status_code == 200
    else:
        assert error_of(answer) == (400, code)


@pytest.mark.parametrize(
    ("name", "agrees"),
    [
        ("get_stats", True),
        ("=?base64?" + base64.b64encode(b"get_stats").decode() + "?=", True),
        ("=?base64?Z2V0X3N0YXRzx?=", False),
        ("=?base64?/w==?=", False),
        ("get_doc", False),
    ],
)
async def test_the_tools_name_has_to_agree_too(agent: Client, name: str, agrees: bool) -> None:
    body = message("tools/call", {"name": "get_stats"})
    answer = await agent.post("/mcp", json=body, headers={**headers_of(body, MODERN), "Mcp-Name": name})
    assert answer.status_code == (200 if agrees else 400)


async def test_a_header_that_comes_twice_is_refused(agent: Client) -> None:
    body = message("tools/list")
    headers = [*headers_of(body, MODERN).items(), ("Mcp-Method", "tools/list")]
    assert error_of(await agent.post("/mcp", json=body, headers=headers)) == (400, -32020)


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities"])
async def test_the_envelope_is_asked_for(agent: Client, missing: str) -> None:
    body = message("tools/list")
    del body["params"]["_meta"][META + missing]
    answer = await agent.post("/mcp", json=body, headers=headers_of(body, MODERN))
    assert error_of(answer) == (400, -32602)


# -- bad messages ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b"[{}]", -32600),
        (b"1", -32600),
        (b'{"id": 1}', None),
        (b'{"id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32600),
        (b'{"jsonrpc": "2.0", "method": []}', -32600),
    ],
)
async def test_what_is_no_message_is_a_json_rpc_error(agent: Client, body: bytes, code: int | None) -> None:
    answer = await agent.post("/mcp", content=body)
    if code is None:
        assert answer.status_code == 202
    else:
        assert error_of(answer) == (400, code)
        assert answer.json()["jsonrpc"] == "2.0"


@pytest.mark.parametrize("params", [{}, {"protocolVersion": 5}, {"protocolVersion": "x", "capabilities": []}])
async def test_bad_params_are_an_error_that_names_them(agent: Client, params: dict[str, Any]) -> None:
    answer = await agent.post("/mcp", json=message("initialize", params, OLD[0]))
    assert error_of(answer) == (200, -32602)


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_other_methods_are_a_405(agent: Client, method: str) -> None:
    answer = await agent.request(method, "/mcp")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


# -- tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scopes", "names"), [(["read"], READ), (["write"], WRITE), (["read", "write"], READ | WRITE)]
)
async def test_a_key_is_offered_the_tools_of_its_scopes(
    client: Client, env: SimpleNamespace, scopes: list[str], names: set[str]
) -> None:
    key = await minted(client, *scopes)
    async with connect(rendered(), env, Authorization=f"Bearer {key}") as agent:
        listed = (await ask(agent, "tools/list"))["tools"]
        assert {each["name"] for each in listed} == names
        for each in listed:
            hints = each["annotations"]
            assert hints["readOnlyHint"] == (each["name"] in READ)
            assert hints["destructiveHint"] == (each["name"] in WRITE)
        for name in (READ | WRITE) - names:
            refused = await tool(agent, name, {"id": "a", "body": "x"})
            assert refused["isError"]
            assert json.loads(refused["content"][0]["text"])["status"] == 403


async def test_schemas_are_those_of_the_api(agent: Client) -> None:
    tools = {each["name"]: each for each in (await ask(agent, "tools/list"))["tools"]}
    search = tools["search_docs"]["inputSchema"]
    assert search["type"] == "object"
    assert search["required"] == ["query"]
    assert search["properties"]["topK"]["maximum"] == 50
    fields = search["$defs"]["Filter"]["properties"]
    assert fields["chapter"]["anyOf"][0]["enum"] == ["types", "syntax"]
    assert "words" in tools["search_docs"]["description"]
    metadata = tools["ingest_doc"]["inputSchema"]["$defs"]["Metadata"]["properties"]
    assert metadata["level"]["enum"] == [1, 2]
    for each in tools.values():
        assert each["outputSchema"]["type"] == "object"
        assert each["title"]
        assert len(each["description"]) > 40


@pytest.mark.parametrize("version", [*OLD, MODERN])
async def test_a_document_through_all_tools(agent: Client, version: str) -> None:
    stored = await tool(agent, "ingest_doc", TUPLE, version)
    assert stored["structuredContent"]["status"] == "indexed"
    found = await tool(agent, "search_docs", {"query": "immutable", "filter": {"words": 3}}, version)
    (hit,) = found["structuredContent"]["hits"]
    assert hit["body"] == TUPLE["body"]
    assert json.loads(found["content"][0]["text"]) == found["structuredContent"]
    got = await tool(agent, "get_doc", {"id": "a"}, version)
    assert got["structuredContent"]["metadata"] == {"words": 3}
    listed = await tool(agent, "list_docs", {"content": True}, version)
    assert [each["id"] for each in listed["structuredContent"]["documents"]] == ["a"]
    stats = await tool(agent, "get_stats", {}, version)
    assert stats["structuredContent"]["documents"]["total"] == 1
    deleted = await tool(agent, "delete_doc", {"id": "a"}, version)
    assert deleted["structuredContent"] == {"id": "a", "status": "deleted"}


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("search_docs", {}, "query"),
        ("search_docs", {"query": "x", "topK": 51}, "topK"),
        ("search_docs", {"query": "x", "filter": {"word": 1}}, "filter.word"),
        ("get_doc", {"id": "nope"}, "id"),
        ("list_docs", {"limit": 21, "content": True}, "limit"),
        ("get_stats", {"x": 1}, "x"),
        ("ingest_doc", {"id": "a", "body": ""}, "body"),
        ("ingest_doc", {"id": "a", "body": "x" * 11_000}, "body"),
        ("delete_doc", {"id": ".."}, "id"),
    ],
)
async def test_a_tools_failure_is_a_result_that_names_the_field(
    agent: Client, name: str, arguments: dict[str, Any], field: str
) -> None:
    result = await tool(agent, name, arguments)
    assert result["isError"]
    assert "structuredContent" not in result
    assert json.loads(result["content"][0]["text"])["field"] == field


async def test_an_unknown_tool_is_an_error_with_the_known_ones(agent: Client) -> None:
    for version, status in ((OLD[1], 200), (MODERN, 400)):
        body = message("tools/call", {"name": "nope"}, version)
        answer = await agent.post("/mcp", json=body, headers=headers_of(body, version))
        assert error_of(answer) == (status, -32602)
        assert "search_docs" in answer.json()["error"]["message"]


async def test_descriptions_can_be_set_in_the_config(env: SimpleNamespace, key: str) -> None:
    worker = rendered(mcp={"description": "Recipes of the house.", "tools": {"get_doc": "Fetch a recipe."}})
    async with connect(worker, env, Authorization=f"Bearer {key}") as agent:
        tools = {each["name"]: each for each in (await ask(agent, "tools/list"))["tools"]}
        assert tools["get_doc"]["description"] == "Fetch a recipe."
        assert "Recipes of the house." in tools["search_docs"]["description"]
        assert "Recipes of the house." in (await ask(agent, "server/discover"))["instructions"]


# -- who may call ---------------------------------------------------------------------------------


async def test_the_internal_secret_is_not_taken_unless_configured(env: SimpleNamespace) -> None:
    body = message("tools/list")
    for config, status in (({}, 401), ({"mcp": {"internalSecret": True}}, 200)):
        async with connect(rendered(**config), env, **BEARER) as client:
            answer = await client.post("/mcp", json=body, headers=headers_of(body, MODERN))
            assert answer.status_code == status


@pytest.mark.parametrize("token", [None, "wrong", "pi_" + "x" * 43, SECRET])
async def test_without_a_key_it_is_a_401_that_announces_nothing(stranger: Client, token: str | None) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = await stranger.post("/mcp", json=message("tools/list"), headers=headers)
    assert answer.status_code == 401
    assert "resource_metadata" not in answer.headers["www-authenticate"]
    assert (await stranger.get("/.well-known/oauth-protected-resource")).status_code == 404


async def test_authorization_servers_are_announced_where_there_are_some(env: SimpleNamespace) -> None:
    issuer = "https://login.example"
    async with connect(rendered(mcp={"authorizationServers": [issuer]}), env) as stranger:
        answer = await stranger.post("/mcp", json=message("tools/list"))
        where = answer.headers["www-authenticate"].rpartition('resource_metadata="')[2].strip('"')
        for url in (where, "https://rag.test/.well-known/oauth-protected-resource"):
            metadata = (await stranger.get(url)).json()
            assert metadata["resource"] == "https://rag.test/mcp"
            assert metadata["authorization_servers"] == [issuer]


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        (None, "rag.test", 200),
        ("https://evil.example", "rag.test", 403),
        ("https://evil.example", "evil.example", 403),
        ("null", "rag.test", 403),
        ("https://pydocs.me.workers.dev", "pydocs.me.workers.dev", 200),
        ("https://other.me.workers.dev", "pydocs.me.workers.dev", 403),
        ("https://localhost:8787", "localhost:8787", 200),
        ("https://127.0.0.1:8787", "127.0.0.1:8787", 200),
        ("https://localhost:1", "127.0.0.1:8787", 403),
    ],
)
async def test_pages_from_elsewhere_are_refused(
    agent: Client, origin: str | None, host: str, status: int
) -> None:
    body = message("tools/list")
    headers = {**headers_of(body, MODERN), "Host": host, **({"Origin": origin} if origin else {})}
    answer = await agent.post("/mcp", json=body, headers=headers)
    assert answer.status_code == status


async def test_pages_that_the_config_names_may_call(env: SimpleNamespace, key: str) -> None:
    body = message("tools/list")
    for origins in (["https://app.example"], ["*"]):
        async with connect(rendered(cors={"origins": origins}), env, Authorization=f"Bearer {key}") as agent:
            headers = {**headers_of(body, MODERN), "Origin": "https://app.example"}
            assert (await agent.post("/mcp", json=body, headers=headers)).status_code == 200


async def test_without_mcp_there_is_no_route(env: SimpleNamespace, key: str) -> None:
    async with connect(rendered(mcp={"enabled": False}), env, Authorization=f"Bearer {key}") as agent:
        assert (await agent.post("/mcp", json=message("tools/list"))).status_code == 404
