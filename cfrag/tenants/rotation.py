"""Another internal secret for each tenant, without a moment in which nobody's is taken."""

from collections.abc import Sequence

from cfrag.tenants.events import Progress
from cfrag.tenants.file import Tenant
from cfrag.tenants.fleet import Task, status_of
from cfrag.tenants.operations import Operations
from cfrag.tenants.report import Outcome, Report
from cfrag.tenants.stacks import UNDER_WAY, Step

# A new version, its deployment and activation take 4.
CALLS = 10


def rotate(operations: Operations, chosen: Sequence[Tenant], step: Step, *, whole: bool = True) -> Report:
    """Take a step of the rotation of the chosen tenants' secrets; gone on with after a kill, as `up` is.

    After "begin" both secrets are taken, after "finish" only the new one; "leaked" makes a new one and has
    only that taken. Whatever else the file says is deployed with it.
    """
    operation = f"rotate-secret {step}"
    wanted: dict[str, str] = {tenant.name: step for tenant in chosen}
    return operations.resumable(
        operation, [_task(operations, each, step, operation) for each in chosen], wanted, whole=whole
    )


def _task(operations: Operations, tenant: Tenant, step: Step, operation: str) -> Task:
    # Before the task notes its own start.
    resumed = _ended_early(operations, tenant.name, operation)

    def run(progress: Progress) -> Outcome:
        stack = operations.stacks.of(tenant.name, tenant.account)
        changes = stack.rotate(tenant, step, progress, resumed=resumed)
        return Outcome(tenant.name, status_of(changes), changes=changes, url=operations.url(tenant.name))

    return operations.noted(operation, tenant.name, tenant.account.id, CALLS, run, {tenant.name: step})


def _ended_early(operations: Operations, name: str, operation: str) -> bool:
    entry = operations.journal.entry(name)
    if entry is None or entry.operation != operation or entry.state == "done":
        return False
    return UNDER_WAY not in (entry.error or "")
