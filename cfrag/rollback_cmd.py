"""`cfrag rollback`: an earlier version of the Worker, at once and without a build."""

import os
from typing import Annotated

import typer

from cfrag import output
from cfrag.data_cmds import AsJson
from cfrag.pulumi_run import PulumiStack
from cfrag.rollback import Rollback, RollbackRefused, differences
from cfrag.stack_account import Stack, StackAccount


def rollback_command(
    version: Annotated[
        str | None, typer.Argument(metavar="[VERSION]", help="Number or id; else the one that ran before.")
    ] = None,
    stack: Stack = "local",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put an earlier version of the Worker back; the config and the Pulumi state stay as they are.

    Refused where generation, model, metadata fields or migrations are no longer those of that version.
    The next `pulumi up` that changes the Worker deploys what the config says.
    """
    _use_account_of(stack)
    with StackAccount(stack) as account:
        rollback = Rollback(account)
        current, target = rollback.current, rollback.target(version)
        if target.id == current.id:
            output.say(f"{target} of {rollback.worker} is the one that runs")
            return
        if found := list(differences(current, target, rollback.data())):
            raise RollbackRefused(
                f"{target} can't be put back, since the data has moved on: {'; '.join(found)}. Nothing was "
                "touched: put the older config back and run `pulumi up`, whose preview says what that takes"
            )
        if not yes:
            output.say(f"{rollback.worker}: {current} -> {target}")
            typer.confirm("Put it back?", abort=True, err=True)
        deployment = rollback.deploy(target)
    note = (
        f"the config still asks for {current}: a `pulumi up` that changes the Worker deploys that again; "
        f"to go back before that: cfrag rollback {current.number} -s {stack}"
    )
    if as_json:
        versions = {"from": current.to_json(), "to": target.to_json()}
        output.print_json({"worker": rollback.worker, **versions, "deploymentId": deployment, "note": note})
        return
    output.out.print(f"{rollback.worker} runs {target}", markup=False, soft_wrap=True)
    output.say(note)


def _use_account_of(stack: str) -> None:
    """The Cloudflare on this machine needs no variables set by hand."""
    environment = PulumiStack(stack).environment
    os.environ.update({key: value for key, value in environment.items() if key.startswith("CLOUDFLARE_")})
