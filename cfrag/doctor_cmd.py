"""`cfrag doctor`: what to fix before the first `pulumi up`, as a table and an exit code."""

from collections.abc import Iterator

import typer
import yaml
from rich.table import Table
from rich.text import Text

from cfrag import output
from cfrag.data_cmds import AsJson
from cfrag.doctor import Finding, Settings, Status, machine, service, state
from cfrag.doctor_account import Checkup
from cfrag.errors import Exit
from cfrag.pulumi_env import ROOT, STACK
from cfrag.pulumi_run import PulumiStack
from cfrag.stack_account import Stack

_STYLES: dict[Status, str] = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


def doctor_command(stack: Stack = STACK, as_json: AsJson = False) -> None:
    """Check a stack before its first `up`: versions, settings, token, permissions, limits, names.

    Only reads. Exit 1 where a check failed; warnings don't count.
    """
    findings = list(examine(stack))
    failed = [each for each in findings if each.status == "failed"]
    if as_json:
        shown = [each.to_json() for each in findings]
        output.print_json({"stack": stack, "ok": not failed, "checks": shown})
    else:
        _show(findings)
    if failed:
        output.complain(f"{output.plural(len(failed), 'check')} of stack {stack} failed")
        raise typer.Exit(Exit.SOME_FAILED)


def examine(name: str) -> Iterator[Finding]:
    """Every finding about a stack; what depends on a failed check is left out or says so."""
    stack = PulumiStack(name)
    settings = Settings(stack)
    findings: list[Finding] = []
    for part in (machine(stack), service(settings), state(settings)):
        for each in part:
            findings.append(each)
            yield each
    failed = [each.check for each in findings if each.status == "failed"]
    blocking = [each for each in failed if each not in ("cloudflare plugin", "bundle", "node")]
    if blocking:
        yield Finding("account", "skipped", f"not looked at before {', '.join(blocking)} is right")
        return
    yield from Checkup(settings, str(yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["name"])).run()


def _show(findings: list[Finding]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("check", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("detail, and what to do", overflow="fold", ratio=1)
    for each in findings:
        result = Text(each.status, style=_STYLES[each.status])
        detail = Text(each.detail)
        if each.fix and each.status != "ok":
            detail.append(f"\n-> {each.fix}", style="bold")
        table.add_row(each.check, result, detail)
    output.out.print(table)
