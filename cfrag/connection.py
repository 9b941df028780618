"""Which service a command talks to, and as whom. A key is never taken from the command line."""

import os
import sys

import typer

from cfrag.client import Client
from cfrag.errors import InputError

KEY_PREFIX = "pi_"  # an API key begins with it, the internal secret doesn't
_HINT = 'for the stack on this machine: eval "$(.venv/bin/cfrag local env)"'


def connect(url: str | None) -> Client:
    """A client for the service at `url`, or at CFRAG_URL. Raises InputError where neither is given."""
    return Client(service_url(url), api_key(), key_name="CFRAG_KEY")


def connect_as_operator(url: str | None) -> Client:
    """As `connect`, with the internal secret."""
    return Client(service_url(url), internal_secret())


def service_url(url: str | None) -> str:
    """`url`, or CFRAG_URL. Raises InputError for what is no address."""
    url = url or os.environ.get("CFRAG_URL")
    if not url:
        raise InputError(f"set CFRAG_URL to the address of the service ({_HINT})")
    if not url.startswith(("http://", "https://")):
        raise InputError(f"{url} is no address of a service; it must begin with https:// or http://")
    return url


def api_key() -> str:
    """CFRAG_KEY, or what a person types. Raises InputError where there is neither."""
    return checked(os.environ.get("CFRAG_KEY") or _typed("Key"), "CFRAG_KEY", "a key of the service")


def internal_secret() -> str:
    """CFRAG_SECRET, or CFRAG_KEY where that is the internal secret, or what a person types."""
    found = os.environ.get("CFRAG_SECRET")
    if not found and not (key := os.environ.get("CFRAG_KEY", "")).startswith(KEY_PREFIX):
        found = key
    return checked(found or _typed("Internal secret"), "CFRAG_SECRET", "the internal secret of the service")


def checked(token: str | None, name: str, what: str) -> str:
    """The token, without the line end of a file. Raises InputError for what no header can hold."""
    token = (token or "").strip()
    if not token:
        raise InputError(f"set {name} to {what} ({_HINT})")
    if not token.isascii() or any(character.isspace() for character in token):
        raise InputError(f"{name} holds characters that no key has (blanks, or others than ASCII)")
    return token


def _typed(prompt: str) -> str | None:
    if not sys.stdin.isatty():
        return None
    typed: str = typer.prompt(prompt, hide_input=True, err=True)
    return typed
