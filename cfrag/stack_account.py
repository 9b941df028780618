"""A stack's own Cloudflare account, for commands that work beside the Worker."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import typer
import yaml

from cfrag.errors import InputError, Refused, Unreachable
from cfrag.pulumi_env import ROOT, STACK, config_file
from infra.bundle import store
from infra.bundle.project import stack_config
from infra.config import RagConfig
from infra.naming import Names
from infra.provider.account import Account, ApiFailure

if TYPE_CHECKING:
    from cloudflare import Cloudflare

    from infra.provider.base import Call

T = TypeVar("T")
Stack = Annotated[
    str,
    typer.Option("--stack", "-s", envvar="PULUMI_STACK", help="Stack, as in Pulumi.<stack>.yaml."),
]


class StackAccount:
    """Names from the stack's config, ids from the API; the token from CLOUDFLARE_API_TOKEN.

    The account is that of the stack's config, or CLOUDFLARE_ACCOUNT_ID. Raises ConfigError.
    """

    def __init__(self, stack: str) -> None:
        self.stack = stack
        folder = config_file(store.home()).parent if stack == STACK else ROOT
        self.config = RagConfig.from_pulumi(stack_config(stack, folder))
        self._account = Account(_settings(folder / f"Pulumi.{stack}.yaml"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._account.close()

    @property
    def names(self) -> Names:
        return self.config.names(self.stack)

    @cached_property
    def id(self) -> str:
        return self._account.id

    def call(self, doing: str, function: "Callable[[Cloudflare], T]") -> T:
        """What `function` gets from the official client; `doing` says what for in an error.

        Raises Refused where Cloudflare says no, Unreachable where it doesn't answer.
        """
        return self._run(self._account.call(doing, function))

    def ask(self, work: "Callable[[Call], Coroutine[Any, Any, T]]") -> T:
        """What a part of the provider finds out; it has nobody to tell of its progress. Raises as `call`."""
        from infra.provider.base import Call
        from infra.provider.engine import Engine

        return self._run(work(Call("", self._account, Engine(""))))

    def _run(self, work: "Coroutine[Any, Any, T]") -> T:
        try:
            return asyncio.run(work)
        except ApiFailure as failure:
            if not failure.status or failure.status >= 500:
                raise Unreachable(str(failure)) from None
            raise Refused(str(failure), failure.status) from None

    def database(self) -> str:
        """The id of the stack's database. Raises InputError where it isn't there."""
        name = self.names.db
        found = self.call(
            "list the D1 databases",
            lambda client: list(client.d1.database.list(account_id=self.id, name=name)),
        )
        return self._only("database", name, [each.uuid for each in found if each.name == name])

    def queue(self, name: str) -> str:
        """The id of a queue of the stack. Raises InputError where it isn't there."""
        found = self.call(
            "list the queues",
            lambda client: list(client.queues.list(account_id=self.id, extra_query={"name": name})),
        )
        return self._only("queue", name, [each.queue_id for each in found if each.queue_name == name])

    def _only(self, kind: str, name: str, ids: list[str | None]) -> str:
        if not ids or ids[0] is None:
            raise InputError(
                f"account {self.id} has no {kind} {name}; deploy the stack first: pulumi up -s {self.stack} "
                f"(for a Cloudflare on this machine, CLOUDFLARE_BASE_URL and its token must be set)"
            )
        return ids[0]


def _settings(path: Path) -> dict[str, str]:
    settings: dict[str, Any] = yaml.safe_load(path.read_text())["config"]
    account = settings.get("cf-rag:accountId")
    return {"accountId": account} if isinstance(account, str) else {}
