"""Taking up what exists: the ids to import for the resources that the stack's state does not know."""

from collections.abc import Mapping
from typing import Any

import pulumi

from infra import wiring
from infra.bundle.tables import METADATA
from infra.config import CONFIG_KEY, RagConfig
from infra.errors import CfragError
from infra.naming import Names
from infra.provider.adoption import TOKEN

DATABASE, QUEUE, WORKER = (
    f"cloudflare:index/{name[0].lower()}{name[1:]}:{name}" for name in ("D1Database", "Queue", "Worker")
)
INDEX = "cfrag:index:VectorizeIndex"
_STATE = "pulumi:pulumi:readStackResourceOutputs"


class Existing:
    """What the account has under a stack's names and its state lacks: by logical name, the id to import.

    An id is given only where the state has no such resource: the engine would replace one that it knows by
    another id. Nothing else needs one: what the provider of this project makes, it takes up by itself.
    """

    def __init__(
        self, config: RagConfig, names: Names, prefix: str, migrations: list[str], provider: pulumi.Resource
    ) -> None:
        """Ask the engine and the account. Raises CfragError for what can't be taken over."""
        self._config, self._names, self._prefix = config, names, prefix
        self._known = known_resources()
        found = pulumi.runtime.invoke(
            TOKEN,
            self._wanted(migrations),
            pulumi.InvokeOptions(provider=provider),  # type: ignore[arg-type]
        ).value
        if found is None:
            raise CfragError(
                f"{CONFIG_KEY}.adopt needs an API token and an account that are known at preview"
            )
        if refused := found["refused"]:
            lines = "\n".join(f"  - {each}" for each in refused)
            raise CfragError(
                f"{CONFIG_KEY}.adopt: nothing was touched, since not all can be taken over:\n{lines}"
            )
        self.ids: Mapping[str, str] = found["ids"]

    def _wanted(self, migrations: list[str]) -> dict[str, Any]:
        names = self._names
        consumers = {"ingest": (names.ingest, names.worker), "ingest-dlq": (names.dlq, None)}
        return {
            "indexes": [
                {
                    "name": space.name,
                    "dims": space.model.dims,
                    "metric": space.metric,
                    "metadata": {each.property_name: each.type for each in self._config.metadata_indexes()},
                }
                for space in wiring.spaces(self._config, names)
                if self._new(INDEX, f"index-g{space.generation}")
            ],
            "databases": {
                "db": {"name": names.db, "migrations": migrations, "tables": sorted(METADATA.tables)}
            }
            if self._new(DATABASE, "db")
            else {},
            "queues": {
                logical: {"name": name, "consumer": consumer}
                for logical, (name, consumer) in consumers.items()
                if self._new(QUEUE, logical)
            },
            "workers": {"worker": names.worker} if self._new(WORKER, "worker") else {},
        }

    def _new(self, kind: str, logical: str) -> bool:
        return (kind, self._prefix + logical) not in self._known


def known_resources() -> set[tuple[str, str]]:
    """Type and logical name of each resource in the stack's own state."""
    stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    found = pulumi.runtime.invoke(_STATE, {"stackName": stack}).value or {}
    return {(each["type"], urn.rsplit("::", 1)[-1]) for urn, each in found.get("outputs", {}).items()}
