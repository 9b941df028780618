"""Which service a command talks to: CFRAG_URL and CFRAG_KEY. A key is never taken from the command line."""

import os
import sys

import typer

from cfrag.client import Client
from cfrag.errors import InputError

_HINT = 'for the stack on this machine: eval "$(.venv/bin/cfrag local env)"'


def connect(url: str | None) -> Client:
    """A client for the service at `url`, or at CFRAG_URL. Raises InputError where neither is given."""
    url = url or os.environ.get("CFRAG_URL")
    if not url:
        raise InputError(f"set CFRAG_URL to the address of the service ({_HINT})")
    if not url.startswith(("http://", "https://")):
        raise InputError(f"{url} is no address of a service; it must begin with https:// or http://")
    return Client(url, _key())


def _key() -> str:
    key = os.environ.get("CFRAG_KEY")
    if not key and sys.stdin.isatty():
        key = typer.prompt("Key", hide_input=True, err=True)
    if not key:
        raise InputError(f"set CFRAG_KEY to a key of the service ({_HINT})")
    if not key.isascii() or any(character.isspace() for character in key):
        raise InputError("CFRAG_KEY holds characters that no key has (blanks, or others than ASCII)")
    return key
