"""`cfrag keys …`: API keys, made, listed and revoked."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from cfrag import output
from cfrag.api_keys import SCOPES, key_request, mint_in_database
from cfrag.connection import connect_as_operator
from cfrag.data_cmds import AsJson, Url
from cfrag.errors import InputError, Refused
from cfrag.stack_account import StackAccount

app = typer.Typer(
    help="API keys; the internal secret comes from CFRAG_SECRET, or is asked for.", no_args_is_help=True
)
T = TypeVar("T")
_SECRET = "keys are managed with the internal secret: set CFRAG_SECRET"
_HINTS = {401: _SECRET, 403: _SECRET, 404: 'is the id right, and auth.mode in the stack\'s config "keys"?'}


@app.command("mint")
def mint_command(
    name: Annotated[str, typer.Option("--name", "-n", help="Whose key it is, for the list.")],
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help=f"{' or '.join(SCOPES)}; read by default.")
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="WHEN", help="90d (m, h, d, w), 2027-01-31 or a full time."),
    ] = None,
    d1: Annotated[
        bool, typer.Option("--d1", help="Write it into the stack's database; no Worker need run.")
    ] = False,
    stack: Annotated[
        str | None,
        typer.Option("--stack", "-s", envvar="PULUMI_STACK", help="With --d1: whose database."),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it to standard output: this once, it is stored nowhere."""
    request = key_request(name, scope or ["read"], expires)
    if d1:
        if stack is None:
            raise InputError("--d1 needs to know whose database: add --stack NAME")
        with StackAccount(stack) as account:
            minted = mint_in_database(account, request)
    else:
        with connect_as_operator(url) as client:
            minted = _explained(lambda: client.mint_key(request.to_json()))
    if as_json:
        output.print_json(minted)
        return
    output.say(f"{minted['id']} ({minted['name']}): {_scopes(minted)}, {_until(minted)}. Shown this once:")
    # Not through rich: nothing may wrap, colour or remember it.
    sys.stdout.write(minted["key"] + "\n")


@app.command("list")
def list_command(url: Url = None, as_json: AsJson = False) -> None:
    """List all keys ever made, revoked and expired ones too."""
    with connect_as_operator(url) as client:
        keys = _explained(client.keys)
    if as_json:
        output.print_json({"keys": keys})
        return
    if not keys:
        output.out.print("no keys; make one with: cfrag keys mint --name NAME")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("id", "name", "scopes", "created", "expires", "revoked"):
        table.add_column(column, no_wrap=column != "name", overflow="fold")
    for key in keys:
        times = (_short(key.get(name)) for name in ("createdAt", "expiresAt", "revokedAt"))
        table.add_row(key["id"], Text(key["name"]), _scopes(key), *times)
    output.out.print(table)


@app.command("revoke")
def revoke_command(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As the list shows it: key_…")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key, at once and for good; safe to repeat."""
    if key_id.startswith("pi_"):
        raise InputError("that is a key, not its id, and the command line is no place for it; see: keys list")
    with connect_as_operator(url) as client:
        revoked = _explained(lambda: client.revoke_key(key_id))
    if as_json:
        output.print_json(revoked)
    else:
        output.out.print(
            f"{key_id} ({revoked['name']}) is revoked since {_short(revoked['revokedAt'])}", markup=False
        )


def _explained(call: Callable[[], T]) -> T:
    """What the service answers; its refusals of a wrong token say which one is wanted."""
    try:
        return call()
    except Refused as refused:
        if hint := _HINTS.get(refused.status):
            raise Refused(f"{refused}; {hint}", refused.status) from None
        raise


def _scopes(key: dict[str, Any]) -> str:
    return " ".join(key["scopes"])


def _until(key: dict[str, Any]) -> str:
    expires = key.get("expiresAt")
    return f"valid until {_short(expires)}" if expires else "valid until revoked"


def _short(time: str | None) -> str:
    """A time of the API, to the minute, in UTC."""
    if time is None:
        return ""
    return f"{datetime.fromisoformat(time).astimezone(UTC):%Y-%m-%d %H:%M}Z"
