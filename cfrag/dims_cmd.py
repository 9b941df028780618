"""`cfrag dims …`: replace the embedding space, step by step, without losing a document."""

import time
from typing import Annotated

import typer
from rich.table import Table

from cfrag import output
from cfrag.client import Client
from cfrag.connection import connect_as_operator
from cfrag.data_cmds import AsJson
from cfrag.dims import plan as planning
from cfrag.dims import status as reading
from cfrag.dims.stack import FINISH, Stack, abort_change, apply, start_change
from cfrag.dims.status import Phase, Status
from cfrag.errors import Exit, InputError, Refused
from cfrag.pulumi_env import STACK
from cfrag.stack_account import StackAccount
from infra.catalog import EMBEDDING_MODELS
from infra.config import RagConfig

app = typer.Typer(help="Replace the embedding model or its dimensions, safely.", no_args_is_help=True)

StackName = Annotated[
    str, typer.Option("--stack", "-s", envvar="PULUMI_STACK", help="Stack, as in Pulumi.<stack>.yaml.")
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="Model of the next space, as in the catalog.")]
Metric = Annotated[str | None, typer.Option("--metric", help="cosine, euclidean or dot-product.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

INTERRUPTED = 130
DELETE_BATCH = 100
WATCHING = "the Worker goes on by itself; to look again: cfrag dims status, or cfrag dims start"
# An isolate looks every 60 s, and a cut-over waits until all of them know of both spaces.
TAKE_OVER_SECONDS = 300.0


@app.command("plan")
def plan_command(
    model: Model, stack: StackName = STACK, metric: Metric = None, as_json: AsJson = False
) -> None:
    """Show what a change of the model would take and cost. Changes nothing."""
    opened = Stack(stack)
    with StackAccount(stack) as account:
        plan = _plan(opened, account, model, metric)
    if as_json:
        output.print_json(plan.to_json())
    else:
        _show_plan(plan)


@app.command("start")
def start_command(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Left out, the one that the config names is gone on with."),
    ] = None,
    stack: StackName = STACK,
    metric: Metric = None,
    discard: Annotated[
        bool,
        typer.Option("--discard", help="Begin with an empty index: the content of every document is LOST."),
    ] = False,
    follow: Annotated[bool, typer.Option(help="Show the progress until the new space is complete.")] = True,
    yes: Yes = False,
) -> None:
    """Write the replacement into the stack's settings, deploy it, follow it. Safe to interrupt and repeat."""
    opened = Stack(stack)
    config = opened.config
    with StackAccount(stack) as account:
        if config.replacing is None:
            if model is None:
                raise InputError(
                    "name the model to change to; the catalog has: " + ", ".join(EMBEDDING_MODELS)
                )
            strategy = "discard" if discard else "reindex"
            change = start_change(config, model, metric, strategy)
            _show_plan(_plan(opened, account, model, metric))
            what = "DISCARD the content of every document" if discard else "Embed every document again"
            _confirm(f"{what} for generation {config.embedding.generation + 1}?", yes)
            opened.write(change)
        elif model not in (None, config.embedding.model):
            raise InputError(
                f"the stack is changing to {config.embedding.model} already: finish or abort that first "
                "(cfrag dims finish, cfrag dims abort)"
            )
        else:
            output.say(f"going on with the change to {config.embedding.model}")
        _up(opened)
        if follow:
            _end(_follow(opened, account, ("complete", "blocked")))


@app.command("status")
def status_command(stack: StackName = STACK, as_json: AsJson = False) -> None:
    """Show how far a replacement is, and what comes next."""
    opened = Stack(stack)
    with StackAccount(stack) as account:
        status = reading.read(account, opened.config)
    if as_json:
        output.print_json(status.to_json())
        return
    output.out.print(status.sentence(), markup=False, soft_wrap=True)
    if status.replaces is not None:
        output.out.print(
            f"{status.done:,} of {status.total:,} documents are in generation {status.generation}"
        )
        for each in status.failed:
            output.out.print(f"  can't be embedded: {each}", markup=False)


@app.command("finish")
def finish_command(
    stack: StackName = STACK,
    drop_failed: Annotated[
        bool, typer.Option("--drop-failed", help="Delete the documents that the new model can't embed.")
    ] = False,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Of the service; by default the stack's own.")
    ] = None,
    yes: Yes = False,
) -> None:
    """End the replacement: the old index is deleted. Refused while a document would be missing."""
    opened = Stack(stack)
    with StackAccount(stack) as account:
        status = reading.read(account, opened.config)
        if opened.config.replacing is None:
            _finish_cut_short(opened, status)
            return
        dropped = status.failed if drop_failed else ()
        if dropped:
            _confirm(f"Delete {output.plural(len(dropped), 'document')} ({', '.join(dropped)})?", yes)
            _delete(opened, url, dropped)
        if dropped or status.phase == "settling":
            _sweep(account)
        if dropped or status.phase in ("settling", "behind", "taking over"):
            status = _follow(opened, account, ("complete", "blocked"))
        if status.phase != "complete":
            raise _refusal(status)
        _confirm(f"Delete the index of generation {status.replaces}?", yes)
        opened.write(FINISH)
        _up(opened)
        _show_end(reading.read(account, opened.config))


@app.command("abort")
def abort_command(stack: StackName = STACK, yes: Yes = False) -> None:
    """Go back to the old space, without loss; the new index is deleted."""
    opened = Stack(stack)
    config = opened.config
    with StackAccount(stack) as account:
        if config.replacing is None:
            _finish_cut_short(opened, reading.read(account, config))
            return
        _confirm(f"Go back to {config.replacing.model}, and delete the index of the new space?", yes)
        opened.write(abort_change(config))
        _up(opened)
        _show_end(reading.read(account, opened.config))


def _plan(opened: Stack, account: StackAccount, model: str, metric: str | None) -> planning.Plan:
    config = opened.config
    RagConfig.from_pulumi(apply(opened.raw, start_change(config, model, metric, "reindex")))
    return planning.make(account, config, EMBEDDING_MODELS[model], metric or config.embedding.metric)


def _show_plan(plan: planning.Plan) -> None:
    new, price = plan.new, plan.new.price_per_million_tokens
    cost = "no price is known" if plan.cost is None else f"${plan.cost:,.4f} (${price} per million tokens)"
    megabytes = [
        f"{plan.vector_bytes(*models) / 1e6:,.1f}" for models in ((plan.old,), (plan.old, new), (new,))
    ]
    rows = {
        "now": f"generation {plan.generation}: {plan.old.name}, {plan.old.dims} dims",
        "then": f"generation {plan.generation + 1}: {new.name}, {new.dims} dims, {plan.metric}",
        "documents": f"{plan.documents:,}",
        "AI calls": f"{plan.calls:,} or more, at most {new.max_batch} documents each",
        "tokens": f"about {plan.tokens:,}, from a sample of {plan.sampled} texts",
        "longest text": f"about {plan.longest:,} tokens; the model takes {new.max_input_tokens:,}",
        "cost": cost,
        "prices from": f"{new.source}, as of {new.as_of}",
        "vectors": f"{megabytes[0]} MB now, {megabytes[1]} MB meanwhile, {megabytes[2]} MB then",
    }
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in rows.items():
        table.add_row(name, value)
    output.out.print(table)


def _confirm(question: str, yes: bool) -> None:
    if not yes:
        typer.confirm(question, abort=True, err=True)


def _up(opened: Stack) -> None:
    try:
        opened.up()
    except KeyboardInterrupt:
        output.say(output.AGAIN)
        raise typer.Exit(INTERRUPTED) from None


def _follow(opened: Stack, account: StackAccount, until: tuple[Phase, ...]) -> Status:
    """Shows the progress until one of these phases; Ctrl-C ends the watching only."""
    config, seconds = opened.config, 1.0 if opened.name == STACK else 5.0
    settling = 0.0
    try:
        with output.progress_bar(WATCHING) as bar:
            task = bar.add_task("embedding again", total=None)
            while True:
                status = reading.read(account, config)
                bar.update(task, completed=status.done, total=status.total, description=status.phase)
                if status.phase in until or settling > TAKE_OVER_SECONDS:
                    return status
                time.sleep(seconds)
                settled = status.phase in ("settling", "behind", "taking over", "ending")
                settling = settling + seconds if settled else 0.0
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def _end(status: Status) -> None:
    output.say(status.sentence())
    if status.phase != "complete":
        raise typer.Exit(Exit.SOME_FAILED)


def _refusal(status: Status) -> Refused:
    ids = f" ({', '.join(status.failed)})" if status.failed else ""
    return Refused(
        f"not finished, {status.missing:,} of {status.total:,} documents are missing in generation "
        f"{status.generation}{ids}: {status.sentence()}",
        409,
    )


def _finish_cut_short(opened: Stack, status: Status) -> None:
    """What a finish or abort that was killed has left is one `pulumi up`."""
    if status.phase != "ending":
        raise InputError(status.sentence())
    output.say("going on with what was cut short")
    _up(opened)


def _show_end(status: Status) -> None:
    output.say(f"{status.sentence()}; {' and '.join(status.indexes)} is its index")


def _delete(opened: Stack, url: str | None, ids: tuple[str, ...]) -> None:
    with _service(opened, url) as client:
        for at in range(0, len(ids), DELETE_BATCH):
            client.delete(ids[at : at + DELETE_BATCH])


def _sweep(account: StackAccount) -> None:
    """Wake the sweep, which had given up on what is deleted now; no request may come for a while."""
    queue = account.queue(account.names.ingest)
    account.call(
        "push a sweep message",
        lambda client: client.queues.messages.push(
            queue, account_id=account.id, body={"kind": "sweep", "cursor": ""}, content_type="json"
        ),
    )


def _service(opened: Stack, url: str | None) -> Client:
    if opened.secret is not None:
        return Client(url or str(opened.outputs["url"]), opened.secret)
    return connect_as_operator(url or opened.outputs.get("url"))
