"""A command for every tenant, in its environment; what it prints is shown with the tenant's name."""

import os
import subprocess
import threading
from collections.abc import Sequence

from cfrag import output
from cfrag.tenants.events import Progress
from cfrag.tenants.file import Tenant
from cfrag.tenants.fleet import Task
from cfrag.tenants.operations import Operations, Run
from cfrag.tenants.report import Outcome, Report
from cfrag.tenants.workspace import StackFailed

_PRINTING = threading.Lock()


def run(operations: Operations, chosen: Sequence[Tenant], command: Sequence[str]) -> Report:
    """Run `command` per tenant. One that ends with another code than 0 is a failure."""
    tasks = [Task(each.name, each.account.id, 0, _running(operations, each, command)) for each in chosen]
    return operations.run("run", tasks)


def environment(operations: Operations, tenant: Tenant) -> tuple[dict[str, str], str]:
    """What the command is given, and the secret in it."""
    stack = operations.stacks.of(tenant.name, tenant.account)
    secret = stack.secret()
    url = operations.url(tenant.name) or stack.outputs().get("url")
    given = stack.credentials() | {
        "CFRAG_TENANT": tenant.name,
        "CFRAG_KEY": secret,
        "PULUMI_STACK": tenant.name,
    }
    return os.environ | given | ({"CFRAG_URL": url} if url else {}), secret


def _running(operations: Operations, tenant: Tenant, command: Sequence[str]) -> Run:
    def run(progress: Progress) -> Outcome:
        variables, secret = environment(operations, tenant)
        try:
            process = subprocess.Popen(
                command,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise StackFailed(f"{command[0]}: {error.strerror}") from None
        assert process.stdout
        with process.stdout as lines:
            for line in lines:
                _print(tenant.name, line.rstrip("\n").replace(secret, "[key]"))
        if code := process.wait():
            raise StackFailed(f"{command[0]} ended with exit code {code}")
        return Outcome(tenant.name, "succeeded", url=variables.get("CFRAG_URL"))

    return run


def _print(tenant: str, line: str) -> None:
    with _PRINTING:
        output.out.print(f"{tenant} | {line}", markup=False, soft_wrap=True)
