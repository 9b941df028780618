"""`cfrag preview`: what a commit would do to each stack, as one comment for its pull request."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cfrag import output, preview_embedding, preview_worker
from cfrag.data_cmds import AsJson
from cfrag.errors import Exit, InputError
from cfrag.preview_changes import preview
from cfrag.preview_markdown import StackPreview, comment
from cfrag.pulumi_env import ROOT
from cfrag.pulumi_run import PulumiStack


def preview_command(
    stack: Annotated[
        list[str] | None,
        typer.Option("--stack", "-s", help="Once for each stack; else every Pulumi.<stack>.yaml."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="REF", help="Commit whose Worker this one is compared with."),
    ] = None,
    rendered_only: Annotated[
        bool, typer.Option("--rendered-only", help="Ask neither account nor state: only the Worker's diff.")
    ] = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Look at the account first: also what was changed by hand.")
    ] = False,
    expect_no_changes: Annotated[
        bool, typer.Option("--expect-no-changes", help="Exit 1 where anything would change.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="As a comment (the default).")] = True,
    as_json: AsJson = False,
) -> None:
    """Show what this checkout would change: resources, documents embedded again with cost, the Worker.

    Changes nothing. Runs the code of the checkout: give it a token that reads only. Exit 1 where a
    preview fails or is refused.
    """
    if rendered_only and base is None:
        raise InputError("--rendered-only compares the Worker with that of another commit: --base REF")
    with _exported(base) as folder:
        previews = [_look(each, folder, rendered_only, refresh) for each in stack or _stacks()]
    if as_json:
        output.print_json({"base": base, "stacks": [each.to_json() for each in previews]})
    else:
        # As it is: no line is broken.
        print(comment(previews, base), end="")
    changed = [each.stack for each in previews if each.changes and each.changes.resources]
    if failed := [each.stack for each in previews if each.failed]:
        output.complain(f"the preview of {', '.join(failed)} failed")
        raise typer.Exit(Exit.SOME_FAILED)
    if expect_no_changes and changed:
        output.complain(f"{', '.join(changed)} would change, and nothing should")
        raise typer.Exit(Exit.SOME_FAILED)


def _look(name: str, base: Path | None, rendered_only: bool, refresh: bool) -> StackPreview:
    changes, folder = None, ROOT
    if not rendered_only:
        pulumi = PulumiStack(name)
        changes, folder = preview(pulumi, refresh=refresh), pulumi.folder
    embedding = preview_embedding.examine(name, folder, base, ask_account=not rendered_only)
    try:
        return StackPreview(name, changes, embedding, preview_worker.compare(name, base))
    except InputError as error:
        return StackPreview(name, changes, embedding, None, str(error))


def _stacks() -> list[str]:
    found = sorted(each.name.split(".")[1] for each in ROOT.glob("Pulumi.*.yaml"))
    if not found:
        raise InputError(f"there is no Pulumi.<stack>.yaml in {ROOT}")
    return found


@contextmanager
def _exported(ref: str | None) -> Iterator[Path | None]:
    if ref is None:
        yield None
        return
    with preview_worker.exported(ref) as folder:
        yield folder
