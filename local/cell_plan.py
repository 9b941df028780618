"""Which Workers must share a process: those that share a database or call each other."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class CellPlan:
    """One process: the Workers in it (as the runtime's cell.json wants them) and the databases it owns."""

    workers: tuple[JsonObject, ...]
    databases: tuple[str, ...]

    @property
    def key(self) -> str:
        """Equal for equal content: a running cell with the wanted key is left alone."""
        content = json.dumps([self.workers, self.databases], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(worker["name"] for worker in self.workers)

    @property
    def label(self) -> str:
        return "+".join(self.names) or "databases"


def plan(workers: list[JsonObject], databases: list[str]) -> list[CellPlan]:
    """The cells for `workers`; databases that no Worker is bound to get one cell of their own.

    A database file can be open in one process only, and a service binding reaches only
    Workers of the same process.
    """
    groups = _components({worker["name"]: _shared(worker) for worker in workers})
    by_name = {worker["name"]: worker for worker in workers}
    cells = [_cell([by_name[name] for name in sorted(group)], databases) for group in groups]
    owned = {database for cell in cells for database in cell.databases}
    spare = tuple(sorted(set(databases) - owned))
    return cells + ([CellPlan((), spare)] if spare else [])


def _shared(worker: JsonObject) -> set[str]:
    """What ties this Worker to others: itself, its databases, the Workers it calls."""
    ties = {f"worker:{worker['name']}"}
    for binding in worker["bindings"]:
        if binding["type"] == "d1":
            ties.add(f"d1:{binding['id']}")
        elif binding["type"] == "service":
            ties.add(f"worker:{binding['service']}")
    return ties


def _components(ties: dict[str, set[str]]) -> list[set[str]]:
    groups: list[tuple[set[str], set[str]]] = []
    for name in sorted(ties):
        names, shared = {name}, set(ties[name])
        for group in [group for group in groups if group[1] & shared]:
            groups.remove(group)
            names |= group[0]
            shared |= group[1]
        groups.append((names, shared))
    return sorted((names for names, _ in groups), key=min)


def _cell(workers: list[JsonObject], databases: list[str]) -> CellPlan:
    bound = {binding["id"] for worker in workers for binding in worker["bindings"] if binding["type"] == "d1"}
    return CellPlan(tuple(workers), tuple(sorted(bound & set(databases))))
