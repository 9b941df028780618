"""What there is of each tenant, from the backend and the journal; asks no Worker and no Cloudflare API."""

from collections.abc import Sequence
from typing import Any

from pulumi.automation import StackSummary

from cfrag.tenants.file import is_projects_own
from cfrag.tenants.operations import Operations


def status(operations: Operations, names: Sequence[str], *, unlisted: bool) -> list[dict[str, Any]]:
    """A row per tenant; with `unlisted` also for stacks of tenants that have left the file."""
    existing = operations.stacks.existing()
    rows = [_row(operations, name, existing.get(name)) for name in names]
    if unlisted:
        listed, root = {tenant.name for tenant in operations.tenants.all}, operations.stacks.root
        left = [name for name in existing if name not in listed and not is_projects_own(name, root)]
        rows += [
            _row(operations, name, existing[name]) | {"state": "not in the file"} for name in sorted(left)
        ]
    return rows


def _row(operations: Operations, name: str, stack: StackSummary | None) -> dict[str, Any]:
    return {
        "tenant": name,
        "state": _state(operations, name, stack),
        "lastUpdate": stack.last_update.isoformat() if stack and stack.last_update else None,
        "resources": stack.resource_count if stack else None,
        "url": operations.url(name),
    }


def _state(operations: Operations, name: str, stack: StackSummary | None) -> str:
    entry = operations.journal.entry(name)
    if stack is None:
        return "no stack"
    if stack.update_in_progress:
        return "in progress"
    if entry and entry.state == "failed":
        return f"{entry.operation} failed"
    if entry and entry.state == "running":
        return f"{entry.operation} interrupted"
    return "deployed" if stack.resource_count else "empty"
