"""What language models can do here: tools with their descriptions, inputs and outputs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel

from rag import core
from rag import schemas as s
from rag.bindings import Bindings
from rag.errors import Problem
from rag.openapi import untitled
from rag.settings import FIELDS, MCP_DESCRIPTION, MCP_TOOLS

Run = Callable[[Bindings, Any], Awaitable[BaseModel]]


@dataclass(frozen=True)
class Tool:
    """A tool: its models are those of the HTTP API, so that both take and answer the same."""

    name: str
    title: str
    description: str
    scope: Literal["read", "write"]
    takes: type[BaseModel]
    answers: type[BaseModel]
    run: Run
    destructive: bool = False

    def input_schema(self) -> dict[str, Any]:
        return _schema(self.takes, "validation")

    def output_schema(self) -> dict[str, Any]:
        return _schema(self.answers, "serialization")


@cache
def _schema(model: type[BaseModel], mode: Literal["validation", "serialization"]) -> dict[str, Any]:
    schema: dict[str, Any] = untitled(model.model_json_schema(mode=mode))
    return schema


async def _search(env: Bindings, request: s.SearchRequest) -> BaseModel:
    return await core.search_docs(env, request)


async def _get(env: Bindings, request: s.DocumentRef) -> BaseModel:
    return await core.get_doc(env, request.id)


async def _list(env: Bindings, query: s.ListQuery) -> BaseModel:
    size, recent = query.page_size(), query.order == "recent"
    return await core.list_docs(env, query.cursor, size, query.content, recent=recent, after=query.after)


async def _stats(env: Bindings, _: s.Nothing) -> BaseModel:
    return await core.get_stats(env)


async def _ingest(env: Bindings, document: s.Document) -> BaseModel:
    (result,) = await core.ingest_docs(env, [document], source="mcp")
    if isinstance(result, Problem):
        raise result
    return result


async def _delete(env: Bindings, request: s.DocumentRef) -> BaseModel:
    (result,) = await core.delete_docs(env, [request.id])
    return result


def _about_fields() -> str:
    filterable = [name for name, field in FIELDS.items() if field["filterable"]]
    if not filterable:
        return ""
    return (
        f" Narrow the search with `filter` on {', '.join(filterable)}: a value for equality, or an object of "
        'operators such as {"$gte": 3}.'
    )


_SEARCH = (
    "Find documents by meaning, best match first. Ask with a full question or a phrase in natural language "
    "rather than with keywords; ask several times with different words if the first hits do not answer the "
    "question. Each hit has the document's whole text, so there is no need to fetch it again."
)

_ALL = [
    Tool(
        "search_docs",
        "Search documents",
        _SEARCH + _about_fields() + (f" The documents: {MCP_DESCRIPTION}" if MCP_DESCRIPTION else ""),
        "read",
        s.SearchRequest,
        s.SearchResponse,
        _search,
    ),
    Tool(
        "get_doc",
        "Read one document",
        "Get one document by its id, as found by search_docs or list_docs. A document whose state is "
        '"indexing" was written moments ago; its text can be read shortly after.',
        "read",
        s.DocumentRef,
        s.Doc,
        _get,
    ),
    Tool(
        "list_docs",
        "List documents",
        "List documents in the order of their ids, page by page: pass the cursor of the last answer to go "
        "on. To find something by what it says, use search_docs instead.",
        "read",
        s.ListQuery,
        s.DocList,
        _list,
    ),
    Tool(
        "get_stats",
        "Show the index's state",
        "How many documents there are, which embedding model they use, and whether re-indexing is under way.",
        "read",
        s.Nothing,
        s.Stats,
        _stats,
    ),
    Tool(
        "ingest_doc",
        "Store a document",
        "Store a document, or replace the one with the same id. Give one piece of text that makes sense "
        "alone, at most about 10 KiB; split longer texts into several documents. Storing the same again "
        "changes nothing. It takes some seconds until search_docs finds it.",
        "write",
        s.Document,
        s.IngestResult,
        _ingest,
        destructive=True,
    ),
    Tool(
        "delete_doc",
        "Delete a document",
        "Delete a document by its id, for good. Deleting one that is not there is no error.",
        "write",
        s.DocumentRef,
        s.DeleteResult,
        _delete,
        destructive=True,
    ),
]

TOOLS: dict[str, Tool] = {tool.name: tool for tool in _ALL}


def description(tool: Tool) -> str:
    """The tool's description, the config's where that has one."""
    return MCP_TOOLS.get(tool.name, tool.description)
