"""`cfrag graft`: the service as a part of a Python Worker that exists already."""

import difflib
from pathlib import Path
from typing import Annotated

import typer

from cfrag import output
from cfrag.graft import host, plan
from infra.bundle.project import stack_config
from infra.config import RagConfig
from infra.errors import CfragError

Into = Annotated[Path, typer.Option("--into", help="Folder of the Worker, with its wrangler.jsonc.")]
Stack = Annotated[
    str | None, typer.Option("--stack", "-s", help="Stack whose Pulumi.<stack>.yaml has the config.")
]
Auth = Annotated[
    plan.AuthChoice | None,
    typer.Option("--auth", help="Who may call: whom the Worker's own function knows, or secret, or keys."),
]
Authorize = Annotated[
    str | None, typer.Option("--authorize", help="With --auth host: the function, as module:function.")
]
Below = Annotated[str | None, typer.Option("--path", help="Where the routes are; /rag where left out.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Also files of the service edited there.")]


def graft_command(
    into: Into,
    stack: Stack = None,
    auth: Auth = None,
    authorize: Authorize = None,
    path: Below = None,
    yes: Yes = False,
    overwrite: Overwrite = False,
) -> None:
    """Add the service to a Python Worker, or bring it up to date there; shows changes before it writes.

    What is left out is as it was the last time.
    """
    worker = host.find(into)
    made = plan.make(worker, _wish(worker, stack, auth, authorize, path), overwrite)
    for change in made.changes:
        output.out.print(_shown(change), markup=False, soft_wrap=True)
    for where, text in made.by_hand:
        output.out.print(f"\nto be put into {where} by hand:\n\n{text}\n", markup=False, soft_wrap=True)
    for edited in made.edited:
        output.say(f"kept as it was edited here: {edited} (--overwrite takes the new one)")
    for remark in made.remarks:
        output.say(f"note: {remark}")
    if not made.changes:
        output.say("everything is up to date")
    elif not yes:
        typer.confirm(f"Write {output.plural(len(made.changes), 'file')}?", abort=True, err=True)
    made.write()
    if made.changes:
        output.say("next: docs/graft.md, from the resources to the first deploy")


def _wish(
    worker: host.Host,
    stack: str | None,
    auth: plan.AuthChoice | None,
    authorize: str | None,
    path: str | None,
) -> plan.Wish:
    asked = plan.remembered(worker).get("asked", {})
    stack = stack or asked.get("stack")
    if stack is None:
        raise CfragError("--stack NAME is needed the first time: its Pulumi.NAME.yaml has the config")
    if auth is None:
        auth, authorize = asked.get("auth", "keys"), authorize or asked.get("authorize")
    path = "/" + (path or asked.get("path", "/rag")).strip("/")
    return plan.Wish(RagConfig.from_pulumi(stack_config(stack)), stack, path, auth, authorize)


def _shown(change: plan.Change) -> str:
    """A change to read: line by line, but files of the service that come or go in one line."""
    if change.own and change.before is None:
        return f"+ {change.path} ({output.plural(len((change.after or '').splitlines()), 'line')})"
    if change.own and change.after is None:
        return f"- {change.path}"
    before, after = (text.splitlines() if text else [] for text in (change.before, change.after))
    lines = difflib.unified_diff(before, after, f"a/{change.path}", f"b/{change.path}", lineterm="")
    return "\n".join(lines)
