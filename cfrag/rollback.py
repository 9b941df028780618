"""Putting an earlier version of a stack's Worker back, where the data is still what it was made for."""

import ast
import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cfrag.errors import InputError
from cfrag.stack_account import StackAccount
from infra.errors import CfragError

if TYPE_CHECKING:
    from cloudflare import Cloudflare

SETTINGS = "rag/settings.py"
_SPACE = ("GENERATION", "DIMS", "METRIC", "FINGERPRINT")
_APPLIED = "SELECT name, applied_at FROM d1_migrations ORDER BY id"
_WANTED = "SELECT key, value FROM meta WHERE key IN ('desired_fingerprint', 'desired_generation')"


class RollbackRefused(CfragError):
    """The earlier version would meet data that it was not made for."""


@dataclass(frozen=True)
class Version:
    """An uploaded version of the Worker. `settings` are the constants of its rendered config."""

    id: str
    number: int
    created: datetime
    settings: Mapping[str, Any]
    indexes: tuple[str, ...]

    def __str__(self) -> str:
        return f"version {self.number} ({self.id[:8]}, {self.created:%Y-%m-%d %H:%M} UTC)"

    @property
    def fields(self) -> dict[str, tuple[str, bool]]:
        """Type and filterability of each declared metadata field."""
        return {name: (each["type"], each["filterable"]) for name, each in self.settings["FIELDS"].items()}

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "number": self.number, "createdOn": self.created.isoformat()}


@dataclass(frozen=True)
class Data:
    """What the stack's database says: its migrations with their times, and the space that it should be in."""

    migrations: tuple[tuple[str, datetime], ...]
    fingerprint: str | None
    generation: int | None


class Rollback:
    """The versions and deployments of one stack's Worker. Raises InputError, Refused or Unreachable."""

    def __init__(self, account: StackAccount) -> None:
        self._account = account
        self.worker = account.names.worker
        self._versions = self._listed()
        self.current = self._loaded(self._deployed()[0])

    def target(self, wanted: str | None) -> Version:
        """A version by number, id or the beginning of one; without any, the one that ran before this one."""
        if wanted is None:
            earlier = [each for each in self._deployed() if each != self.current.id]
            if not earlier:
                raise InputError(
                    f"no other version of {self.worker} has been deployed: nothing to go back to"
                )
            return self._loaded(earlier[0])
        found = [
            ident
            for ident, each in self._versions.items()
            if str(each.number) == wanted or (len(wanted) >= 4 and ident.startswith(wanted))
        ]
        if len(found) != 1:
            known = ", ".join(str(each.number) for each in self._versions.values())
            what = "is no version" if not found else "begins several versions"
            raise InputError(f"{wanted} {what} of {self.worker}; there are: {known}")
        return self._loaded(found[0])

    def data(self) -> Data:
        """What D1 knows."""
        database = self._account.database()
        applied = [
            (str(row["name"]), _time(str(row["applied_at"]))) for row in self._rows(database, _APPLIED)
        ]
        wanted = {row["key"]: row["value"] for row in self._rows(database, _WANTED)}
        generation = wanted.get("desired_generation")
        return Data(
            tuple(applied), wanted.get("desired_fingerprint"), int(generation) if generation else None
        )

    def deploy(self, target: Version) -> str:
        """Give `target` all requests; the id of the deployment."""

        def create(client: "Cloudflare") -> Any:
            return client.workers.scripts.deployments.create(
                self.worker,
                account_id=self._account.id,
                strategy="percentage",
                versions=[{"percentage": 100, "version_id": target.id}],
                annotations={"workers_message": f"cfrag rollback from version {self.current.number}"},
            )

        return str(self._account.call(f"deploy {target} of {self.worker}", create).id)

    def _listed(self) -> dict[str, Any]:
        def listed(client: "Cloudflare") -> list[Any]:
            versions = client.workers.beta.workers.versions
            return list(versions.list(self.worker, account_id=self._account.id))

        found = self._account.call(f"list the versions of Worker {self.worker}", listed)
        return {str(each.id): each for each in found}

    def _deployed(self) -> list[str]:
        """Ids of the versions that were deployed, the one of now first; of two at once, the larger share."""

        def listed(client: "Cloudflare") -> Any:
            # The SDK's own method looks for pages, which this endpoint doesn't have.
            path = f"/accounts/{self._account.id}/workers/scripts/{self.worker}/deployments"
            return client.get(path, cast_to=object)

        answer: Any = self._account.call(f"list the deployments of Worker {self.worker}", listed)
        found = sorted(answer["result"]["deployments"], key=lambda each: each["created_on"], reverse=True)
        if not found:
            raise InputError(
                f"Worker {self.worker} has not been deployed: pulumi up -s {self._account.stack}"
            )
        return [max(each["versions"], key=lambda one: one["percentage"])["version_id"] for each in found]

    def _loaded(self, ident: str) -> Version:
        def get(client: "Cloudflare") -> Any:
            versions = client.workers.beta.workers.versions
            return versions.get(ident, account_id=self._account.id, worker_id=self.worker, include="modules")

        found = self._account.call(f"read version {ident} of Worker {self.worker}", get)
        source = next((each for each in found.modules or () if each.name == SETTINGS), None)
        if source is None:
            raise RollbackRefused(f"version {found.number} of {self.worker} holds no {SETTINGS}: not cfrag's")
        indexes = (each.index_name for each in found.bindings or () if each.type == "vectorize")
        return Version(
            id=str(found.id),
            number=int(found.number),
            created=found.created_on,
            settings=constants(base64.b64decode(source.content_base64).decode()),
            indexes=tuple(sorted(indexes)),
        )

    def _rows(self, database: str, sql: str) -> list[Any]:
        def query(client: "Cloudflare") -> list[Any]:
            return list(client.d1.database.query(database, account_id=self._account.id, sql=sql))

        results = self._account.call("read the stack's database", query)
        return list(results[0].results or ())


def constants(source: str) -> dict[str, Any]:
    """The module's constants that are literals; nothing of it is run."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            try:
                found[node.target.id] = ast.literal_eval(node.value)
            except ValueError:
                continue  # computed from others, such as a number of bytes
    return found


def differences(current: Version, target: Version, data: Data) -> Iterator[str]:
    """Why `target` can't take over from `current` on this data; nothing where it can."""
    for name in _SPACE:
        before, after = target.settings[name], current.settings[name]
        if before != after:
            yield f"{name.lower()} was {before}, and is {after}"
    if target.indexes != current.indexes:
        yield f"it reads {', '.join(target.indexes)}, and the stack is on {', '.join(current.indexes)}"
    if data.generation not in (None, target.settings["GENERATION"]):
        yield f"the data is in generation {data.generation}, it is of {target.settings['GENERATION']}"
    if data.fingerprint not in (None, target.settings["FINGERPRINT"]):
        yield f"the data is embedded as {data.fingerprint}, it wants {target.settings['FINGERPRINT']}"
    yield from _metadata(current, target)
    later = [name for name, applied in data.migrations if applied > target.created]
    if later:
        yield f"it is older than the migrations {', '.join(later)}"


def _metadata(current: Version, target: Version) -> Iterator[str]:
    for name in sorted(current.fields.keys() | target.fields.keys()):
        before, after = target.fields.get(name), current.fields.get(name)
        if before != after:
            yield f"metadata field {name} was {_shown(before)}, and is {_shown(after)}"
    if target.settings["TAG_PROPERTIES"] != current.settings["TAG_PROPERTIES"]:
        yield f"tags had {target.settings['MAX_TAGS']} slots, and have {current.settings['MAX_TAGS']}"


def _shown(field: tuple[str, bool] | None) -> str:
    if field is None:
        return "not there"
    return f"{field[0]}, {'filterable' if field[1] else 'not filterable'}"


def _time(text: str) -> datetime:
    """SQLite's time of a row, in UTC and whole seconds."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
