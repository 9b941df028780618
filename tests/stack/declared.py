"""A RagStack declared without an engine: what it asks for, in which order, with which options."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pulumi
from pulumi.runtime import mocks, rpc
from pulumi.runtime.stack import run_pulumi_func
from pulumi.runtime.sync_await import _sync_await

from infra.config import RagConfig
from infra.settings import RagStackArgs
from infra.stack import RagStack

TOKEN = "token-of-the-test-token-of-the-test-0123456"
SECRET = "secret-of-the-test-secret-of-the-test"


@dataclass(frozen=True)
class Declared:
    """One resource as the engine is asked for it."""

    type: str
    name: str
    inputs: Mapping[str, Any]
    after: frozenset[str]
    protect: bool
    provider: str
    secret: frozenset[str]


class Engine(mocks.MockMonitor):
    """Answers as an engine does, and remembers the requests."""

    def __init__(self) -> None:
        super().__init__(_Outputs())
        self.requests: list[Any] = []

    def RegisterResource(self, request: Any) -> Any:
        self.requests.append(request)
        # The mocks make an event loop in each thread that they are called in, and close none.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            return super().RegisterResource(request)  # type: ignore[no-untyped-call]
        finally:
            asyncio.set_event_loop(None)
            loop.close()


class _Outputs(mocks.Mocks):
    """What a provider would add to the inputs: ids, and what others read of a resource."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        known: dict[str, dict[str, Any]] = {
            "cfrag:index:EmbeddingSpace": {"spaces": ["g1/768/cosine"]},
            "cfrag:index:WorkerVersion": {"versionId": "version-1", "number": 1},
        }
        added = known.get(args.typ, {})
        if args.typ == "cloudflare:index/worker:Worker":
            added = {"subdomain": {**args.inputs["subdomain"], "url": "https://worker.example"}}
        return f"{args.name}-id", {**args.inputs, **added}

    def call(self, args: mocks.MockCallArgs) -> Any:
        raise AssertionError(f"the stack called {args.token}")


class _NoLeftovers:
    """The hooks need a server for an engine to call, and there is none here; the real CLI proves them."""

    database = queue = consumer = worker = None

    def __init__(self, *_: object) -> None: ...


def declare(rag: Mapping[str, Any], **options: Any) -> tuple[dict[str, Declared], dict[str, Any]]:
    """The resources of a stack by name, in the order asked for, and its outputs."""
    engine = Engine()
    mocks.set_mocks(engine.mocks, project="cf-rag", stack="dev", preview=False, monitor=engine)
    outputs: dict[str, Any] = {}

    async def program() -> None:
        args = RagStackArgs(
            project="cf-rag",
            stack="dev",
            config=RagConfig.from_pulumi(rag),
            account_id="account",
            api_token=pulumi.Output.secret(TOKEN),
            secrets={"INTERNAL_API_SECRET": pulumi.Output.secret(SECRET)},
            **options,
        )
        stack = RagStack("rag", args)
        for name, value in stack.outputs.items():
            outputs[name] = await pulumi.Output.from_input(value).future()

    with patch("infra.stack.Leftovers", _NoLeftovers):
        _sync_await(run_pulumi_func(program))
    resources = [_declared(request) for request in engine.requests]
    return {each.name: each for each in resources}, outputs


def _declared(request: Any) -> Declared:
    return Declared(
        type=request.type,
        name=request.name,
        inputs=rpc.deserialize_properties(request.object, keep_unknowns=False),
        after=frozenset(urn.rsplit("::", 1)[-1] for urn in request.dependencies),
        protect=request.protect,
        provider=request.provider.split("::")[-2] if request.provider else "",
        secret=frozenset(key for key, value in request.object.fields.items() if _is_secret(value)),
    )


def _is_secret(value: Any) -> bool:
    return "4dabf18193072939515e22adb298388d" in str(value)
