"""What became of each tenant, for people and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Status = Literal[
    "created",
    "changed",
    "unchanged",
    "destroyed",
    "absent",
    "planned",
    "succeeded",
    "failed",
    "done before",
    "not started",
]
NOT_WELL: frozenset[Status] = frozenset({"failed", "not started"})


@dataclass
class Outcome:
    """One tenant's part of a run; `changes` counts resources by what was done to them."""

    tenant: str
    status: Status
    seconds: float = 0.0
    changes: dict[str, int] = field(default_factory=dict)
    url: str | None = None
    error: str | None = None

    @property
    def well(self) -> bool:
        return self.status not in NOT_WELL

    @property
    def shown_changes(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in sorted(self.changes.items()) if what != "same")


@dataclass
class Report:
    """A whole run, tenants in the file's order. `rendered` counts Worker bundles, one per distinct config."""

    operation: str
    outcomes: Sequence[Outcome]
    seconds: float
    rendered: int = 0
    waited_for_budget: float = 0.0

    @property
    def well(self) -> bool:
        return all(outcome.well for outcome in self.outcomes)

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for outcome in self.outcomes:
            counts[outcome.status] = counts.get(outcome.status, 0) + 1
        return counts

    def to_json(self) -> dict[str, Any]:
        return {
            "operation": self.operation,
            "ok": self.well,
            "seconds": round(self.seconds, 1),
            "rendered": self.rendered,
            "waitedForBudgetSeconds": round(self.waited_for_budget, 1),
            "counts": self.counts(),
            "tenants": [
                asdict(outcome) | {"seconds": round(outcome.seconds, 1)} for outcome in self.outcomes
            ],
        }
