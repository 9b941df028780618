"""`cfrag export`: every document of a service into one file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from cfrag import output
from cfrag.backup.account import AccountSource
from cfrag.backup.export import Export
from cfrag.backup.file import header
from cfrag.backup.listing import Listed, Source, read_space
from cfrag.backup.partial import Partial
from cfrag.connection import connect, connect_as_operator, service_url
from cfrag.data_cmds import AsJson, Url
from cfrag.errors import Exit, InputError
from cfrag.output import plural
from cfrag.stack_account import StackAccount

_SHOWN = 5


def export_command(
    file: Annotated[Path, typer.Argument(help="The backup; compressed if its name ends in .gz.")],
    vectors: Annotated[
        bool, typer.Option("--vectors", help="The vectors too; with the internal secret (CFRAG_SECRET).")
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", min=0, metavar="SECONDS", help="For what can't be read yet.")
    ] = 180.0,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Finish the file without what can't be read.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE, once the new one is whole.")] = False,
    stack: Annotated[
        str | None,
        typer.Option(
            "--stack", "-s", help="Read D1 and Vectorize of this stack's account, without the Worker."
        ),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Write every document of a service to a file: content, tags, fields.

    Interrupted, it goes on where it was if it is run again with the same FILE. The service may be written to
    meanwhile. Exit code 1 where a document can't be read.
    """
    if file.is_dir():
        raise InputError(f"{file} is a folder: give the name of a file")
    if file.exists() and not force:
        raise InputError(f"{file} exists: give another name, or --force to replace it")
    with _opened(stack, url, vectors=vectors) as (source, address):
        space = read_space(source)
        _check_settled(space, vectors=vectors)
        with Partial(file, header(address, space, vectors=vectors)) as partial:
            if partial.resumed:
                output.say(f"{partial.path}: going on behind {plural(len(partial.held), 'document')}")
            export = _export(source, partial, space, vectors=vectors, wait=wait)
            _check_count(partial, export.listed)
            finished = allow_missing or not export.unreadable
            if finished:
                partial.finish(export.listed.states, sorted(export.unreadable))
    _show(file, export, finished=finished, as_json=as_json)
    if export.unreadable:
        raise typer.Exit(Exit.SOME_FAILED)


@contextmanager
def _opened(stack: str | None, url: str | None, *, vectors: bool) -> Iterator[tuple[Source, str]]:
    """Where to read from, and what that is called in the file."""
    if stack is not None:
        if url is not None:
            raise InputError("--stack reads the account and --url the service: give one of them")
        with StackAccount(stack) as account:
            source = AccountSource(account)
            yield source, source.address
    else:
        with (connect_as_operator if vectors else connect)(url) as client:
            yield client, service_url(url)


def _check_settled(space: dict[str, Any], *, vectors: bool) -> None:
    """Raises InputError while not every vector that can be read is of the space's model."""
    if vectors and not space["settled"]:
        raise InputError(
            "vectors of an older model may still be read: export them 5 minutes after all have been embedded "
            "again (cfrag stats), or the documents without --vectors"
        )


def _export(source: Source, partial: Partial, space: dict[str, Any], *, vectors: bool, wait: float) -> Export:
    with output.progress_bar() as bar:
        task = bar.add_task("exporting", total=source.stats()["documents"]["total"])
        export = Export(source, partial, space, vectors, wait, lambda count: bar.advance(task, count))
        export.run()
    return export


def _check_count(partial: Partial, listed: Listed) -> None:
    """Raises InputError where the service counts other documents than it lists."""
    if listed.differs and listed.steady:
        raise InputError(
            f"the service counts {plural(listed.counted, 'document')} and lists {listed.length}, though none "
            f"came or went: {partial.path} is kept and not finished; run the export again"
        )


def _show(file: Path, export: Export, *, finished: bool, as_json: bool) -> None:
    written = len(export.listed.states) - len(export.unreadable)
    if as_json:
        output.print_json(
            {
                "file": str(file) if finished else None,
                "documents": written,
                "counted": export.listed.counted,
                "unreadable": export.unreadable,
                "older": export.older,
            }
        )
    elif finished:
        what = f"{plural(written, 'document')}{' with vectors' if export.vectors else ''}"
        output.out.print(
            f"{file}: {what}; the service counts {export.listed.counted}", markup=False, soft_wrap=True
        )
    if export.listed.differs:
        output.say("documents came or went while they were counted; the file has those of the last list")
    if export.older:
        output.say(f"{plural(len(export.older), 'document')} changed meanwhile; the file has them as before")
    if export.unreadable:
        _complain(export, finished=finished)


def _complain(export: Export, *, finished: bool) -> None:
    for doc_id, reason in list(export.unreadable.items())[:_SHOWN]:
        output.complain(f"{doc_id}: {reason}")
    count = plural(len(export.unreadable), "document")
    if finished:
        output.complain(f"{count} can't be read; the file is finished without")
    else:
        output.complain(
            f"{count} can't be read; {export.partial.path} is kept and not finished. Run the export again to "
            "try these only, or with --allow-missing to finish without (--json lists all). An import of an "
            "older backup with --force brings back what the index has lost"
        )
