"""`cfrag dlq …`: messages that the ingest queue has given up."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from cfrag import output
from cfrag.data_cmds import AsJson
from cfrag.dead_letters import PEEK, DeadLetter, DeadLetterQueue, Outcome
from cfrag.errors import Exit, InputError
from cfrag.stack_account import Stack, StackAccount

app = typer.Typer(
    help="Messages that the ingest queue has given up, on the account of CLOUDFLARE_API_TOKEN.",
    no_args_is_help=True,
)
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="As the list shows them.")]
All = Annotated[bool, typer.Option("--all", help="Every message that is there now.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]


@app.command("list")
def list_command(
    stack: Stack,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=PEEK, help="Most messages shown.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the oldest messages with their reasons; uses up no delivery attempt."""
    with _opened(stack) as queue:
        letters, count = queue.peek(limit), queue.count()
    if as_json:
        output.print_json({"count": count, "messages": [each.to_json() for each in letters]})
        return
    if not letters:
        output.out.print(f"{queue.name} is empty", markup=False)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("id", "since"):
        table.add_column(column, no_wrap=True)
    table.add_column("what and why", overflow="fold", ratio=1)
    for each in letters:
        what = Text.assemble((each.about, "bold"), "\n", each.why)
        table.add_row(each.id, f"{each.since:%Y-%m-%d %H:%M}Z", what)
    output.out.print(table)
    if count > len(letters):
        output.say(f"the oldest {len(letters)} of about {count:,}")


@app.command("show")
def show_command(
    stack: Stack, message: Annotated[str, typer.Argument(metavar="ID", help="As the list shows it.")]
) -> None:
    """Print one message in full, as JSON; uses up no delivery attempt."""
    with _opened(stack) as queue:
        (found,) = _chosen(queue, [message])
    output.print_json(found.to_json())


@app.command("replay")
def replay_command(
    stack: Stack, ids: Ids = None, every: All = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Send messages to the ingest queue again, and remove each once it was taken there.

    Safe to repeat: a document that is indexed already is skipped.
    """
    with _opened(stack) as queue:
        outcome = _run(queue, "replay", queue.replay, ids or [], every=every, yes=yes)
    _report(outcome, "replayed", as_json=as_json)


@app.command("drop")
def drop_command(
    stack: Stack, ids: Ids = None, every: All = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Remove messages for good."""
    with _opened(stack) as queue:
        outcome = _run(queue, "drop", queue.drop, ids or [], every=every, yes=yes)
    _report(outcome, "dropped", as_json=as_json)


@contextmanager
def _opened(stack: str) -> Iterator[DeadLetterQueue]:
    with StackAccount(stack) as account:
        yield DeadLetterQueue(account)


def _run(
    queue: DeadLetterQueue,
    verb: str,
    work: Callable[[Sequence[DeadLetter]], Outcome],
    ids: list[str],
    *,
    every: bool,
    yes: bool,
) -> Outcome:
    """`work` on the messages that were asked for, after a person has agreed to it."""
    if every == bool(ids):
        raise InputError(f"say which messages to {verb}: ids, or --all")
    letters = [] if every else _chosen(queue, ids)
    count = queue.count() if every else len(letters)
    _confirm(f"{verb} {output.plural(count, 'message')} of {queue.name}?", yes=yes)
    if not every:
        return work(letters)
    with output.progress_bar() as bar:
        task = bar.add_task(verb, total=count)
        return queue.all_of_now(work, lambda more: bar.advance(task, more))


def _report(outcome: Outcome, done: str, *, as_json: bool) -> None:
    """What was done; ends with exit code 1 where some failed."""
    if as_json:
        output.print_json({done: outcome.done, "failed": outcome.failed})
    else:
        output.out.print(f"{output.plural(len(outcome.done), 'message')} {done}", markup=False)
    for message, reason in outcome.failed.items():
        output.complain(f"{message} stays: {reason}")
    if outcome.failed:
        raise typer.Exit(Exit.SOME_FAILED)


def _chosen(queue: DeadLetterQueue, ids: Sequence[str]) -> list[DeadLetter]:
    """Those messages. Raises InputError for one that can't be seen."""
    found = {each.id: each for each in queue.peek()}
    if missing := [each for each in ids if each not in found]:
        beyond = f" among the oldest {PEEK}, and more can't be seen" if len(found) == PEEK else ""
        raise InputError(f"{queue.name} has no message {', '.join(missing)}{beyond}")
    return [found[each] for each in dict.fromkeys(ids)]


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError(f"{question} Nobody can be asked here: add --yes")
    if not typer.confirm(question, err=True):
        raise typer.Exit(Exit.OK)
