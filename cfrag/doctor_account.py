"""What has to be right in the Cloudflare account: token, permissions, limits, and names that are free."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from cfrag.doctor import Finding, Settings
from infra import catalog, wiring
from infra.catalog import Limit
from infra.leftovers import user_tables
from infra.provider.account import Account, ApiFailure
from infra.provider.vectorize import owner_in

if TYPE_CHECKING:
    from cloudflare import Cloudflare

T = TypeVar("T")


class Service(NamedTuple):
    """A product of Cloudflare, its permission group, and how to read what the account has of it."""

    name: str
    group: str
    read: "Callable[[Cloudflare, str], list[Any]]"


SERVICES = (
    Service("Vectorize", "Vectorize", lambda c, a: list(c.vectorize.indexes.list(account_id=a))),
    Service("D1", "D1", lambda c, a: list(c.d1.database.list(account_id=a))),
    Service("Queues", "Queues", lambda c, a: list(c.queues.list(account_id=a))),
    Service("Workers", "Workers Scripts", lambda c, a: list(c.workers.beta.workers.list(account_id=a))),
)
# What a stack makes, and how many of it an account may hold on Workers Free and Paid.
LIMITS: tuple[tuple[str, str, Limit, Limit], ...] = (
    ("Vectorize", "indexes", catalog.VECTORIZE_INDEXES_FREE, catalog.VECTORIZE_INDEXES),
    ("D1", "databases", catalog.D1_DATABASES_FREE, catalog.D1_DATABASES),
    ("Queues", "queues", catalog.QUEUES_PER_ACCOUNT, catalog.QUEUES_PER_ACCOUNT),
)

_OTHER_TOKEN = "make another one (docs/deploy.md, step 2): pulumi config set --secret cloudflare:apiToken"


class Checkup:
    """One look at the account of a stack. `settings` must be readable."""

    def __init__(self, settings: Settings, project: str) -> None:
        values = settings.values
        self.settings = settings
        self.stack = settings.stack.name
        self.owner = f"cfrag:{project}/{self.stack}"
        self._account = Account(
            {
                "apiToken": values["cloudflare:apiToken"],
                "accountId": values["cf-rag:accountId"],
                "baseUrl": settings.stack.environment.get("CLOUDFLARE_BASE_URL", ""),
            }
        )
        self._has: dict[str, list[Any]] = {}

    def run(self) -> Iterator[Finding]:
        """Every check, in the order in which they can be fixed."""
        try:
            yield self._token()
            yield from self._permissions()
        except ApiFailure as failure:
            fix = (
                _OTHER_TOKEN
                if failure.status
                else "check the network, and CLOUDFLARE_BASE_URL where it is set"
            )
            yield Finding("token", "failed", str(failure), fix)
            return
        finally:
            self._account.close()
        yield from self._limits()
        yield self._plan()
        yield from self._names()

    def _call(self, doing: str, function: "Callable[[Cloudflare], T]") -> T:
        return asyncio.run(self._account.call(doing, function))

    def _token(self) -> Finding:
        """A token of a user is verified elsewhere than one of the account."""
        doing = "verify the API token"
        try:
            answer: Any = self._call(doing, lambda client: client.user.tokens.verify())
        except ApiFailure as failure:
            if failure.status not in (401, 403, 404):
                raise
            account = self._account.id
            answer = self._call(doing, lambda client: client.accounts.tokens.verify(account_id=account))
        status = answer.status if answer else "unknown"
        if status != "active":
            return Finding(
                "token", "failed", f"the token is {status}", "make another: docs/deploy.md, step 2"
            )
        return Finding("token", "ok", "active")

    def _permissions(self) -> Iterator[Finding]:
        """Reads show that a group is there; that it may edit can't be seen without making something."""
        for service in SERVICES:
            check, group = f"permission {service.name}", f"{service.group}: Edit"

            def read(client: "Cloudflare", service: Service = service) -> list[Any]:
                return service.read(client, self._account.id)

            try:
                self._has[service.name] = self._call(f"list what {service.name} holds", read)
            except ApiFailure as failure:
                if not failure.status:
                    raise
                fix = f"give the token the permission group Account > {group}"
                yield Finding(check, "failed", str(failure), fix)
            else:
                yield Finding(check, "ok", f"can be read ({len(self._has[service.name])} there)")

    def _limits(self) -> Iterator[Finding]:
        for name, noun, free, paid in LIMITS:
            if (items := self._has.get(name)) is None:
                continue
            yield limit(f"limit {noun}", len(items), self._missing(name), free, paid)

    def _missing(self, service: str) -> int:
        """How many of a kind the first `up` would add."""
        there = {_name(each) for each in self._has[service]}
        return len([name for kind, name in self._wanted() if kind == service and name not in there])

    def _plan(self) -> Finding:
        """Settings that Workers Free doesn't have; to read the plan takes a permission for billing."""
        config, needs = self.settings.config, []
        if config.queue.dead_letter_days > 1:
            needs.append(f"queue.deadLetterDays {config.queue.dead_letter_days} (1 on Workers Free)")
        if config.cpu_ms and config.cpu_ms > 10:
            needs.append(f"cpuMs {config.cpu_ms} (10 on Workers Free)")
        if needs:
            return Finding("plan", "warning", f"needs Workers Paid: {', '.join(needs)}", "or lower them")
        return Finding("plan", "ok", "nothing in the config needs Workers Paid")

    def _wanted(self) -> list[tuple[str, str]]:
        names = self.settings.config.names(self.stack)
        indexes = [("Vectorize", each.name) for each in wiring.spaces(self.settings.config, names)]
        rest = [("D1", names.db), ("Queues", names.ingest), ("Queues", names.dlq), ("Workers", names.worker)]
        return [*indexes, *rest]

    def _names(self) -> Iterator[Finding]:
        """Whether each name is free, this stack's own, or somebody else's."""
        ours = self._ids_in_state()
        for kind, name in self._wanted():
            found = next((each for each in self._has.get(kind, ()) if _name(each) == name), None)
            if kind not in self._has:
                yield Finding(f"name {name}", "skipped", f"{kind} can't be read")
            elif found is None:
                yield Finding(f"name {name}", "ok", "free")
            elif self._is_ours(kind, found, ours):
                yield Finding(f"name {name}", "ok", "of this stack")
            elif kind != "Vectorize" and self._is_empty(kind, found):
                yield Finding(
                    f"name {name}", "ok", "left behind and empty: `up` removes it and makes it anew"
                )
            else:
                yield Finding(
                    f"name {name}",
                    "failed",
                    f"{kind} has one that this stack did not make",
                    "choose another cf-rag:rag.name or stack name, or take it over: pulumi import",
                )

    def _is_ours(self, kind: str, found: Any, ours: set[str]) -> bool:
        if kind == "Vectorize":
            return owner_in(found.description or "") == self.owner or self.settings.config.adopt
        return _id(found) in ours

    def _is_empty(self, kind: str, found: Any) -> bool:
        if kind == "Queues":
            return not (found.consumers_total_count or found.producers_total_count)
        account = self._account.id
        if kind == "D1":
            return not self._call(
                f"look into database {found.name}", lambda c: user_tables(c, account, str(found.uuid))
            )
        return not self._call(
            f"list the versions of Worker {found.name}",
            lambda c: list(c.workers.beta.workers.versions.list(found.id, account_id=account)),
        )

    def _ids_in_state(self) -> set[str]:
        exported = self.settings.stack.read("stack", "export")
        return {str(each.get("id")) for each in exported["deployment"].get("resources") or ()}


def limit(check: str, there: int, added: int, free: Limit, paid: Limit) -> Finding:
    """Whether so many fit, on Workers Free or at least on Paid."""
    total = there + added
    counted = f"{there:,} there, {added} to be added"
    if total > paid.value:
        return Finding(check, "failed", f"{counted}; at most {paid.value:,} ({paid.source})", "remove some")
    if total > free.value:
        fix = "needs Workers Paid, or remove some"
        return Finding(check, "warning", f"{counted}; {free.value:,} on Workers Free ({free.source})", fix)
    return Finding(check, "ok", counted)


def _name(found: Any) -> str:
    return str(getattr(found, "name", None) or getattr(found, "queue_name", ""))


def _id(found: Any) -> str:
    values = (getattr(found, key, None) for key in ("uuid", "queue_id", "id"))
    return str(next((each for each in values if each), ""))
