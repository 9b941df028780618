"""`cfrag tenants …`: one stack per tenant, from one file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from cfrag import local_process, output
from cfrag.errors import Exit, InputError
from cfrag.plugins import ensure_cloudflare_plugin
from cfrag.pulumi_env import pulumi_env
from cfrag.tenants import file, pace
from cfrag.tenants.file import Account, Tenants
from infra.bundle import store
from infra.catalog import API_CALLS_PER_5_MIN

# The Automation API takes 0.3 s to import, which no other command should pay: see the functions below.

app = typer.Typer(help="One stack per tenant, from one file.", no_args_is_help=True)

File = Annotated[Path, typer.Option("--file", "-f", help="Who the tenants are.")]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="TENANT", help="This one; may be repeated.")
]
Parallel = Annotated[int, typer.Option("--parallel", "-p", min=1, help="How many stacks at a time.")]
Calls = Annotated[
    int,
    typer.Option(
        "--calls-per-5-min",
        min=1,
        max=API_CALLS_PER_5_MIN.value,
        help="API calls that this run may make of an account's 1,200.",
    ),
]
Local = Annotated[bool, typer.Option("--local", help="On the Cloudflare that runs on this machine.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON report to standard output.")]

TENANTS = Path("tenants.yaml")


@app.command("plan")
def plan_command(
    path: File = TENANTS,
    only: Only = None,
    parallel: Parallel = 2,
    calls: Calls = pace.CALLS,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Show what `up` would change, tenant by tenant. Changes nothing."""
    tenants = _load(path, local)
    chosen = tenants.only(only or [])
    with _operations(tenants, [each.name for each in chosen], parallel, calls) as operations:
        report = operations.plan(chosen)
    _end(report, as_json)


@app.command("up")
def up_command(
    path: File = TENANTS,
    only: Only = None,
    parallel: Parallel = 2,
    canary: Annotated[
        int, typer.Option("--canary", min=0, metavar="N", help="N tenants first; the rest if they are well.")
    ] = 0,
    anew: Annotated[
        bool, typer.Option("--all", help="Also what an interrupted run has done already.")
    ] = False,
    calls: Calls = pace.CALLS,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Make or change the stacks of the tenants. Safe to repeat: a run that ended early is gone on with."""
    tenants = _load(path, local)
    chosen = tenants.only(only or [])
    with _operations(tenants, [each.name for each in chosen], parallel, calls) as operations:
        report = operations.up(chosen, canaries=canary, whole=not only, resume=not anew)
    _end(report, as_json)


@app.command("rotate-secret")
def rotate_secret_command(
    path: File = TENANTS,
    only: Only = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="The second step: the secret before is taken no more.")
    ] = False,
    leaked: Annotated[
        bool, typer.Option("--leaked", help="In one step: the secret of now is refused at once.")
    ] = False,
    parallel: Parallel = 2,
    calls: Calls = pace.CALLS,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Give the tenants new internal secrets: first both are taken, after --finish only the new ones.

    An `up` with what the file says. Safe to repeat: a run that ended early is gone on with.
    """
    from cfrag.tenants.rotation import rotate

    if finish and leaked:
        raise InputError("--finish ends a rotation and --leaked makes one of its own: give one of them")
    tenants = _load(path, local)
    chosen = tenants.only(only or [])
    with _operations(tenants, [each.name for each in chosen], parallel, calls) as operations:
        report = rotate(
            operations, chosen, "finish" if finish else "leaked" if leaked else "begin", whole=not only
        )
    _end(report, as_json)
    if not finish and not leaked:
        output.say(
            "the old secrets are still taken: hand the new ones out with `cfrag tenants run`, then end the "
            "old ones with `cfrag tenants rotate-secret --finish`"
        )


@app.command("destroy")
def destroy_command(
    path: File = TENANTS,
    only: Only = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    parallel: Parallel = 2,
    calls: Calls = pace.CALLS,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Remove the stacks, with all that they hold. Refused where the deployed config protects the data.

    A tenant that has left the file already can be named with --only.
    """
    tenants = _load(path, local)
    names = list(dict.fromkeys(only)) if only else [each.name for each in tenants.all]
    if not yes:
        typer.confirm(
            f"Destroy {output.plural(len(names), 'stack')} ({', '.join(names)})?", abort=True, err=True
        )
    with _operations(tenants, names, parallel, calls) as operations:
        report = operations.destroy(names)
    _end(report, as_json)


@app.command("status")
def status_command(
    path: File = TENANTS,
    only: Only = None,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Show which tenants have a stack, when it was last deployed, and where it answers."""
    from cfrag.tenants.status import status

    tenants = _load(path, local)
    names = [each.name for each in tenants.only(only or [])]
    with _operations(tenants, [], 1, pace.CALLS) as operations:
        rows = status(operations, names, unlisted=not only)
    if as_json:
        output.print_json({"tenants": rows})
        return
    table = Table("tenant", "state", "last up", "resources", "url", box=None, header_style="bold")
    for row in rows:
        table.add_row(
            *(Text(str(row[key] or "")) for key in ("tenant", "state", "lastUpdate", "resources", "url"))
        )
    output.out.print(table)


@app.command("run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run_command(
    command: Annotated[list[str], typer.Argument(help="After --: the command and its arguments.")],
    path: File = TENANTS,
    only: Only = None,
    parallel: Parallel = 2,
    local: Local = False,
    as_json: AsJson = False,
) -> None:
    """Run a command once per tenant, with CFRAG_TENANT, CFRAG_URL and CFRAG_KEY set for it."""
    from cfrag.tenants.running import run

    tenants = _load(path, local)
    chosen = tenants.only(only or [])
    with _operations(tenants, [], parallel, pace.CALLS) as operations:
        report = run(operations, chosen, command)
    _end(report, as_json)


@app.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of the file, for editors."""
    from cfrag.tenants import schema

    print(schema.text(), end="")


def _load(path: Path, local: bool) -> Tenants:
    """The file's tenants, this process's environment having been set for where they live.

    On this machine there is one account, whatever accounts the file names.
    """
    everybody: Account | None = None
    if local:
        home = store.home()
        running = local_process.need(home)
        environment = pulumi_env(home, running.api)
        ensure_cloudflare_plugin(environment)
        os.environ.clear()
        os.environ.update(environment)
        everybody = Account(running.account_id)
    # It would be every stack's settings file.
    os.environ.pop("PULUMI_OPTION_CONFIG_FILE", None)
    os.environ.setdefault("PULUMI_SKIP_UPDATE_CHECK", "true")
    return file.load(path, os.environ, everybody=everybody)


@contextmanager
def _operations(tenants: Tenants, names: list[str], parallel: int, calls: int) -> Iterator[Any]:
    """What a command works with; without names, nothing is shown while it goes on."""
    from cfrag.tenants.fleet import Fleet, View
    from cfrag.tenants.journal import Journal
    from cfrag.tenants.operations import Operations
    from cfrag.tenants.stacks import Stacks
    from cfrag.tenants.view import shown

    stacks = Stacks(store.home() / "tenants", secrets_provider=tenants.secrets_provider)
    with shown(names) if names else nullcontext(View()) as view:
        yield Operations(
            tenants,
            stacks,
            Journal(stacks.folder / f"{tenants.path.stem}.journal.json"),
            Fleet(parallel, view, lambda: pace.Pacer(calls)),
        )


def _end(report: Any, as_json: bool) -> None:
    from cfrag.tenants.view import show_report

    show_report(report)
    if as_json:
        output.print_json(report.to_json())
    if not report.well:
        raise typer.Exit(Exit.SOME_FAILED)
