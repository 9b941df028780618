"""`cfrag ingest`, `search` and `stats`: what a person does with a running service."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from cfrag import output
from cfrag.connection import connect
from cfrag.errors import Exit
from cfrag.filters import parse_filter, parse_where
from cfrag.ingest import Failure, Report, ingest
from cfrag.sources import find_files, read

Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Address of the service; CFRAG_URL by default.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]

_SHOWN_PER_REASON = 5
_SNIPPET = 160


def ingest_command(
    paths: Annotated[list[Path], typer.Argument(help="Markdown or JSONL files, or folders of them.")],
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME", help="Front-matter key that becomes metadata."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Embed again also what is unchanged.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Send documents to the service; safe to repeat, since what is unchanged is skipped.

    The id is the front matter's "id" or the file's path; ids over 64 bytes end in a hash.
    """
    files = find_files(paths)
    with connect(url) as client, output.progress_bar() as bar:
        items = [item for file, base in files for item in read(file, base, field or [])]
        task = bar.add_task("ingesting", total=len(items))
        report = ingest(client, items, lambda count: bar.advance(task, count), force=force)
    if as_json:
        output.print_json(report.to_json())
    show_report(report, to_stdout=not as_json)
    if report.failures:
        raise typer.Exit(Exit.SOME_FAILED)


def show_report(report: Report, *, to_stdout: bool = True) -> None:
    """The counts, and on standard error each failure with its reason."""
    counts = f"{report.indexed} indexed, {report.skipped} skipped, {len(report.failures)} failed"
    line = f"{output.plural(report.total, 'document')}: {counts}"
    if to_stdout:
        output.out.print(line)
    by_reason: dict[str, list[Failure]] = {}
    for failure in report.failures:
        by_reason.setdefault(failure.reason, []).append(failure)
    for same in by_reason.values():
        for failure in same[:_SHOWN_PER_REASON]:
            output.complain(_failure_line(failure))
        if (hidden := len(same) - _SHOWN_PER_REASON) > 0:
            output.complain(f"... and {hidden} more for the same reason (--json lists all)")


def _failure_line(failure: Failure) -> str:
    name = f"{failure.source} [{failure.id}]" if failure.id else failure.source
    return f"{name}: {failure.reason}"


def search_command(
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    top_k: Annotated[int | None, typer.Option("--top-k", "-k", min=1, help="Most hits wanted.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", help="Only with any of these tags.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", "-w", metavar="CONDITION", help="Such as chapter=types or 'words<100'; all must hold."
        ),
    ] = None,
    filter_json: Annotated[
        str | None, typer.Option("--filter", metavar="JSON", help="The filter as the API takes it.")
    ] = None,
    inactive: Annotated[
        bool, typer.Option("--inactive", help="Search the inactive documents instead.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Search by meaning, narrowed by tags and metadata."""
    request: dict[str, Any] = {"query": query, "active": not inactive}
    if top_k is not None:
        request["topK"] = top_k
    if tag:
        request["tags"] = tag
    if conditions := parse_filter(filter_json) | parse_where(where or []):
        request["filter"] = conditions
    with connect(url) as client:
        hits = client.search(request)
    if as_json:
        output.print_json({"hits": hits})
        return
    show_hits(hits)


def show_hits(hits: list[dict[str, Any]]) -> None:
    if not hits:
        output.out.print("nothing found")
        return
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("document", no_wrap=True, overflow="ellipsis", ratio=5)
    table.add_column("tags and metadata", overflow="fold", ratio=2)
    for hit in hits:
        # Text, not str: documents are full of the square brackets that rich takes for markup.
        labels = [*hit["tags"], *(f"{name}={value}" for name, value in sorted(hit["metadata"].items()))]
        name = Text.assemble(
            (hit["id"], "bold"), "  ", hit["title"] or "", "\n", (_snippet(hit["body"]), "dim")
        )
        table.add_row(f"{hit['score']:.3f}", name, Text(" ".join(labels)))
    output.out.print(table)


def _snippet(body: str) -> str:
    line = " ".join(body.split())
    return line if len(line) <= _SNIPPET else line[: _SNIPPET - 1] + "…"


def stats_command(url: Url = None, as_json: AsJson = False) -> None:
    """What the service holds, and the state of its vector space."""
    with connect(url) as client:
        stats = client.stats()
    if as_json:
        output.print_json(stats)
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in _flat(stats):
        table.add_row(Text(name), Text("-" if value is None else str(value)))
    output.out.print(table)


def _flat(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _flat(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", inner
