"""A tenant's stack settings: its config and, encrypted, its secrets. A cache of what the state holds."""

import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import yaml
from pulumi import automation

from cfrag.tenants.file import TOKEN, Tenant
from cfrag.tenants.workspace import StackFailed, Workspace, last_line
from infra.config import CONFIG_KEY

SECRET = "cf-rag:internalApiSecret"
PREVIOUS = "cf-rag:internalApiSecretPrevious"
API_TOKEN = "cloudflare:apiToken"
ACCOUNT_ID = "cf-rag:accountId"
# What the state calls the two secrets, in the Worker's bindings.
_BINDINGS = {SECRET: "INTERNAL_API_SECRET", PREVIOUS: "INTERNAL_API_SECRET_PREVIOUS"}


class Settings:
    """The file `Pulumi.<tenant>.yaml` in a workspace's folder. Methods raise StackFailed or NoStack."""

    def __init__(self, name: str, workspace: Workspace) -> None:
        self.path = Path(workspace.work_dir) / f"Pulumi.{name}.yaml"
        self._name = name
        self._workspace = workspace

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self._token_mark.unlink(missing_ok=True)

    def configure(self, tenant: Tenant, *, create: bool = True) -> None:
        """Write down what the tenant's config is; a stack that is missing is made if `create` says so."""
        made = not self.path.exists() and self._make_or_restore(create=create)
        settings = yaml.safe_load(self.path.read_text()) or {}
        config = settings.setdefault("config", {})
        config |= {CONFIG_KEY: dict(tenant.raw), ACCOUNT_ID: tenant.account.id}
        write_private(self.path, yaml.safe_dump(settings, sort_keys=False))
        if SECRET not in config:
            # 32 random bytes, made once, handed over on a pipe: no disk and no process list sees them.
            kept = {} if made else self.deployed()
            self._set_secret(SECRET, kept.get(SECRET) or secrets.token_hex(32))
        token = self._workspace.env_vars[TOKEN]
        if API_TOKEN not in config or not self._is_marked(token):
            self._set_secret(API_TOKEN, token)
            write_private(self._token_mark, digest(token))

    def _make_or_restore(self, *, create: bool) -> bool:
        """Whether the stack has been made just now."""
        if create:
            try:
                self._workspace.create_stack(self._name)
                return True
            except (automation.StackAlreadyExistsError, automation.ConcurrentUpdateError):
                pass  # it is there, and somebody who was killed may have left it locked
            except automation.CommandError as error:
                raise StackFailed(last_line(error)) from None
        self.restore()
        return False

    def restore(self) -> None:
        """Make the file again where it is missing: the state of the stack knows how to decrypt."""
        if self.path.exists():
            return
        provider = self._exported(secrets_shown=False).get("secrets_providers") or {}
        kind, state = provider.get("type"), provider.get("state") or {}
        settings: dict[str, Any] = {}
        if kind == "passphrase":
            settings["encryptionsalt"] = state["salt"]
        elif kind == "cloud":
            settings |= {"secretsprovider": state["url"], "encryptedkey": state["encryptedkey"]}
        write_private(self.path, yaml.safe_dump(settings, sort_keys=False))
        for key, kept in self.deployed().items():
            self._set_secret(key, kept)

    def deployed(self) -> dict[str, str]:
        """The internal secrets that the deployed Worker takes, by their keys, from the state."""
        for resource in self._exported(secrets_shown=True).get("resources", []):
            if resource["type"] == "cfrag:index:WorkerVersion":
                bound = _plain(resource["inputs"]["bindings"])
                texts = {key: _plain(bound.get(name, {}).get("text")) for key, name in _BINDINGS.items()}
                return {key: text for key, text in texts.items() if text}
        return {}

    @property
    def rotates(self) -> bool:
        """Whether a secret of before is still to be taken."""
        return PREVIOUS in self._config()

    def renew_secret(self, *, keep: bool) -> None:
        """Another internal secret at the next `up`; `keep` has the one of now taken beside it."""
        now = self._workspace.cli("config", "get", SECRET, "--stack", self._name).strip()
        if keep:
            # First: killed in between, the next run finds the two equal and makes the new one.
            self._set_secret(PREVIOUS, now)
        else:
            self.forget_previous()
        self._set_secret(SECRET, secrets.token_hex(32))

    @property
    def is_renewed(self) -> bool:
        """Whether the new secret of a rotation has been made already."""
        get = ("config", "get", "--stack", self._name)
        return self.rotates and self._workspace.cli(*get, PREVIOUS) != self._workspace.cli(*get, SECRET)

    def forget_previous(self) -> None:
        """Only one secret is taken after the next `up`."""
        settings = yaml.safe_load(self.path.read_text())
        settings["config"].pop(PREVIOUS, None)
        write_private(self.path, yaml.safe_dump(settings, sort_keys=False))

    def _config(self) -> dict[str, Any]:
        config: dict[str, Any] = (yaml.safe_load(self.path.read_text()) or {}).get("config") or {}
        return config

    def _exported(self, *, secrets_shown: bool) -> dict[str, Any]:
        command = ["stack", "export", "--stack", self._name] + (["--show-secrets"] if secrets_shown else [])
        exported: dict[str, Any] = json.loads(self._workspace.cli(*command))["deployment"]
        return exported

    def _set_secret(self, key: str, value: str) -> None:
        self._workspace.cli("config", "set", "--secret", key, "--stack", self._name, stdin=value)

    @property
    def _token_mark(self) -> Path:
        """A digest of the token that the settings hold encrypted, so that a new one is noticed."""
        return self.path.with_suffix(".token")

    def _is_marked(self, token: str) -> bool:
        return self._token_mark.exists() and self._token_mark.read_text() == digest(token)


def _plain(value: Any) -> Any:
    """A value of a state that was exported with its secrets shown."""
    return json.loads(value["plaintext"]) if isinstance(value, dict) and "plaintext" in value else value


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_private(path: Path, text: str) -> None:
    partial = path.with_suffix(f".{os.getpid()}")
    partial.touch(mode=0o600)
    partial.write_text(text)
    partial.replace(path)
