"""The lines that a host's main module gets: few, in the right places, once."""

import ast

import pytest

from cfrag.graft import entry

FASTAPI = '''"""A shop."""

import fastapi
from workers import WorkerEntrypoint, asgi

app = fastapi.FastAPI(
    title="shop",
)


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return await asgi.fetch(app, request, self.env)
'''
PLAIN = '''from workers import Response, WorkerEntrypoint


class Default(WorkerEntrypoint):
    async def fetch(self, req, env=None):
        """Hello."""
        return Response("hello")

    async def queue(self, messages):
        print(len(messages.messages))


class Other(WorkerEntrypoint):
    pass
'''


def test_routes_are_mounted_on_fastapi_and_the_queue_is_handled() -> None:
    mounted = entry.mount(FASTAPI, "/rag") or ""
    assert 'title="shop",\n)\napp.mount("/rag", rag)\n' in mounted
    assert mounted.endswith("    async def queue(self, batch):\n        await rag.queue(batch, self.env)\n")
    assert ast.unparse(ast.parse(mounted).body[3]) == entry.IMPORT


def test_without_a_framework_fetch_and_queue_ask_first() -> None:
    mounted = entry.mount(PLAIN, "/rag") or ""
    assert (
        '"""Hello."""\n        if rag.serves(req):\n            return await rag.fetch(req, self.env'
        in mounted
    )
    assert "async def queue(self, messages):\n        if rag.handles(messages):\n" in mounted


@pytest.mark.parametrize("source", [FASTAPI, PLAIN])
def test_every_line_of_the_host_stays(source: str) -> None:
    mounted = (entry.mount(source, "/rag") or "").splitlines()
    kept = iter(mounted)
    assert all(line in kept for line in source.splitlines())
    assert len(mounted) - len(source.splitlines()) <= 8


@pytest.mark.parametrize("source", [FASTAPI, PLAIN])
def test_a_second_time_nothing_changes(source: str) -> None:
    mounted = entry.mount(source, "/rag")
    assert mounted is not None
    assert entry.mount(mounted, "/rag") == mounted


@pytest.mark.parametrize(
    "source",
    [
        "def on_fetch(request, env):\n    return None\n",
        "from other import Default\n",
        "class Default:\n    def fetch(self, request):\n        pass\n",
        FASTAPI + "\n    def queue(self, batch):\n        pass\n",
        "class Default(:\n",
    ],
)
def test_where_the_place_is_not_plain_nothing_is_done(source: str) -> None:
    assert entry.mount(source, "/rag") is None
    assert 'app.mount("/rag", rag)' in entry.by_hand("/rag")
