"""`cfrag smoke`: whether a deployed service does what it must, as a table and an exit code."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from cfrag import output
from cfrag.connection import api_key, checked, service_url
from cfrag.data_cmds import AsJson, Url
from cfrag.errors import Exit, InputError
from cfrag.smoke import Result, Smoke, Status

_STYLES: dict[Status, str] = {"ok": "green", "failed": "bold red", "skipped": "yellow"}


def smoke_command(
    url: Url = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="-", help="- reads it from standard input; else CFRAG_KEY, or asked for."
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option("--wait", min=1, help="Most seconds to wait until Vectorize shows a write.")
    ] = 180,
    as_json: AsJson = False,
) -> None:
    """Try a service out after a deploy: health, refusals, ingest, search, get, delete, MCP.

    Needs a key with the scopes read and write. Its one document is inactive, and removed again.
    """
    address, token = service_url(url), _token(key)
    results: list[Result] = []
    with output.err.status(f"trying {address}") as status, _ended_by_signals():

        def waiting(what: str, left: float) -> None:
            status.update(f"waiting until {what}: {left:.0f} s left")

        smoke = Smoke(address, token, wait, waiting)
        try:
            for result in smoke.run():
                results.append(result)
                status.update(f"{result.check}: {result.status}")
        finally:
            if (cleaned := smoke.clean_up()) is not None:
                results.append(cleaned)
                if cleaned.status == "failed":
                    output.complain(f"the document {smoke.probe} may still be there: {cleaned.detail}")
    failed = [each for each in results if each.status == "failed"]
    if as_json:
        shown = [each.to_json() for each in results]
        output.print_json({"url": address, "ok": not failed, "checks": shown})
    else:
        _show(results)
    if failed:
        output.complain(f"{output.plural(len(failed), 'check')} of {address} failed")
        raise typer.Exit(Exit.SOME_FAILED)


def _token(key: str | None) -> str:
    if key is None:
        return api_key()
    if key != "-":
        raise InputError(
            "a key on the command line can be seen by everybody on this machine: revoke it, "
            "and set CFRAG_KEY, or write --key - and give it on standard input"
        )
    return checked(sys.stdin.readline(), "standard input", "a key of the service")


def _show(results: list[Result]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("check", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("detail", overflow="fold", ratio=1)
    for each in results:
        result = Text(each.status, style=_STYLES[each.status])
        table.add_row(each.check, result, f"{each.seconds:.2f}", Text(each.detail))
    output.out.print(table)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Being told to end is an exception, so that the probe is still removed."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
