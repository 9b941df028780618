"""`cfrag import`: a backup into a service, of the same model or another."""

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from cfrag import output
from cfrag.backup.file import Backup, checked
from cfrag.backup.fitting import check
from cfrag.backup.listing import list_all, read_space
from cfrag.backup.restore import Plan, Restored, plan, restore, without
from cfrag.client import Client
from cfrag.connection import connect, connect_as_operator
from cfrag.data_cmds import AsJson, Url
from cfrag.errors import Exit, InputError
from cfrag.output import plural

_SHOWN = 5


def import_command(
    file: Annotated[Path, typer.Argument(help="What `cfrag export` has written.")],
    vectors: Annotated[
        bool,
        typer.Option(
            "--vectors",
            help="Take the file's vectors, embed nothing; with the internal secret (CFRAG_SECRET).",
        ),
    ] = False,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave documents alone whose id is there already.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write also what is there already, as after a loss of vectors.")
    ] = False,
    drop_field: Annotated[
        list[str] | None, typer.Option("--drop-field", metavar="NAME", help="Leave this field out.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Overwrite without asking.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Bring the documents of a backup into a service; they are embedded there, unless --vectors is given.

    The file is checked as a whole before anything is written. Deletes nothing. Safe to repeat, also after an
    interruption: what is there already is skipped.
    """
    drop = frozenset(drop_field or [])
    if drop and vectors:
        raise InputError("--drop-field with --vectors: the vectors were made from all fields")
    backup = checked(file)
    with (connect_as_operator if vectors else connect)(url) as client:
        target = read_space(client)
        check(backup.header, (without(each, drop) for each in backup.lines()), target, vectors=vectors)
        held = list_all(client).states
        planned = plan(backup, held, skip_existing=skip_existing)
        _agree(planned, target["name"], drop, yes=yes)
        done = _restore(client, backup, planned, held, vectors=vectors, drop=drop, force=force)
        total = int(client.stats()["documents"]["total"])
    lacking = len(held) + planned.new - sum(each.id not in held for each in done.failures) - total
    _show(done, planned, backup, total, as_json=as_json)
    if lacking > 0:
        output.complain(
            f"the target counts {total} documents, {lacking} fewer than it should: were any deleted?"
        )
    if done.failures or lacking > 0:
        raise typer.Exit(Exit.SOME_FAILED)


def _agree(planned: Plan, name: str, drop: frozenset[str], *, yes: bool) -> None:
    """A person agrees to documents being overwritten."""
    if not planned.differing or yes:
        return
    count = plural(planned.differing, "document")
    certain = f"{count} of {name} with other content will be overwritten"
    # The hash of what remains without a field is the service's to compute.
    maybe = f"{count} of {name} will be overwritten where they differ in more than {', '.join(sorted(drop))}"
    question = f"{maybe if drop else certain}. Go on?"
    if not sys.stdin.isatty():
        raise InputError(f"{question} Nobody can be asked here: add --yes, or --skip-existing to keep them")
    if not typer.confirm(question, err=True):
        raise typer.Exit(Exit.OK)


def _restore(
    client: Client,
    backup: Backup,
    planned: Plan,
    held: Collection[str],
    *,
    vectors: bool,
    drop: frozenset[str],
    force: bool,
) -> Restored:
    with output.progress_bar() as bar:
        task = bar.add_task("importing", total=backup.documents - len(planned.left))
        return restore(
            client,
            backup,
            lambda count: bar.advance(task, count),
            vectors=vectors,
            existing=held,
            leave=planned.left,
            drop=drop,
            force=force,
        )


def _show(done: Restored, planned: Plan, backup: Backup, total: int, *, as_json: bool) -> None:
    failed = [{"id": each.id, "reason": each.reason} for each in done.failures]
    if as_json:
        output.print_json(
            {
                "indexed": done.indexed,
                "skipped": done.skipped,
                "overwritten": done.overwritten,
                "left": len(planned.left),
                "failed": failed,
                "lackedByTheFile": list(backup.unreadable),
                "total": total,
            }
        )
    else:
        counts = f"{done.indexed} indexed, {done.skipped} skipped, {len(failed)} failed"
        more = f" ({done.overwritten} overwritten)" if done.overwritten else ""
        more += f"; {len(planned.left)} left alone" if planned.left else ""
        line = f"{plural(done.total, 'document')}: {counts}{more}; the target has {total}"
        output.out.print(line, soft_wrap=True)
    if backup.unreadable:
        output.say(f"the file lacks {plural(len(backup.unreadable), 'document')} that could not be exported")
    for each in failed[:_SHOWN]:
        output.complain(f"{each['id']}: {each['reason']}")
    if (hidden := len(failed) - _SHOWN) > 0:
        output.complain(f"... and {hidden} more (--json lists all)")
