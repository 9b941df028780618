"""Two services in one Pulumi program: nothing of one is called as something of the other."""

from collections import Counter
from typing import Any
from unittest.mock import patch

import pulumi
from pulumi.runtime import mocks
from pulumi.runtime.stack import run_pulumi_func
from pulumi.runtime.sync_await import _sync_await

from infra.config import RagConfig
from infra.settings import RagStackArgs
from infra.stack import RagStack
from tests.stack.declared import SECRET, TOKEN, Engine


class _Hooks:
    """Which hooks would be registered: the engine takes each name once."""

    prefixes: list[str]
    database = queue = consumer = worker = None

    def __init__(self, _account: str, _token: object, prefix: str) -> None:
        self.prefixes.append(prefix)


def _declare(*names: str) -> list[Any]:
    engine = Engine()
    mocks.set_mocks(engine.mocks, project="shop", stack="dev", preview=False, monitor=engine)

    async def program() -> None:
        for name in names:
            args = RagStackArgs(
                project="shop",
                stack="dev",
                config=RagConfig(name=name),
                account_id="account",
                api_token=pulumi.Output.secret(TOKEN),
                secrets={"INTERNAL_API_SECRET": pulumi.Output.secret(SECRET)},
            )
            RagStack(name, args)

    _Hooks.prefixes = []
    with patch("infra.stack.Leftovers", _Hooks):
        _sync_await(run_pulumi_func(program))
    return [request for request in engine.requests if request.type != "pulumi:pulumi:Stack"]


def test_two_stacks_share_no_name_of_a_resource_or_a_hook() -> None:
    requests = _declare("manuals", "reviews")
    counted = Counter((request.type, request.name) for request in requests)
    assert [each for each, count in counted.items() if count > 1] == []
    assert len(requests) > 30
    assert _Hooks.prefixes == ["manuals-", "reviews-"]
