"""`tenants.yaml`: who gets a stack of their own, and what differs in it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from cfrag.pulumi_env import ROOT, STACK
from infra.config import RagConfig
from infra.errors import ConfigError
from infra.naming import LABEL
from infra.sections import Model
from infra.validation import fault, nearest, problems

TOKEN = "CLOUDFLARE_API_TOKEN"
ACCOUNT = "CLOUDFLARE_ACCOUNT_ID"
_HEXADECIMAL = frozenset("0123456789abcdef")


def _account_id(value: str) -> str:
    if len(value) != 32 or not set(value) <= _HEXADECIMAL:
        raise fault(f'"{value}" is no account id, which is 32 hexadecimal digits')
    return value


class AccountEntry(Model):
    """A Cloudflare account; `token` is the name of the environment variable that holds its API token."""

    id: Annotated[str, AfterValidator(_account_id)]
    token: str = TOKEN


class TenantEntry(Model):
    """What differs for one tenant; `config` is merged into the defaults' as a JSON Merge Patch (RFC 7396)."""

    account: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)


class TenantsFile(Model):
    """The whole file. `secretsProvider` is Pulumi's, such as `awskms://…`; its passphrase by default."""

    accounts: dict[str, AccountEntry] = Field(default_factory=dict)
    secrets_provider: str | None = None
    defaults: TenantEntry = TenantEntry()
    tenants: dict[str, TenantEntry]

    @field_validator("tenants", mode="before")
    @classmethod
    def _nothing_differs(cls, value: Any) -> Any:
        """`acme:` alone is a tenant with the defaults."""
        if not isinstance(value, dict):
            return value
        return {name: {} if entry is None else entry for name, entry in value.items()}

    @field_validator("tenants")
    @classmethod
    def _are_names(cls, value: dict[str, TenantEntry]) -> dict[str, TenantEntry]:
        if not value:
            raise fault("names no tenant")
        for name in value:
            if not LABEL.fullmatch(name):
                raise fault("becomes part of resource names; use a-z, 0-9 and - between them only", name)
        return value

    @model_validator(mode="after")
    def _accounts_are_known(self) -> "TenantsFile":
        entries: list[tuple[tuple[str, ...], TenantEntry]] = [(("defaults",), self.defaults)]
        entries += [(("tenants", name), entry) for name, entry in self.tenants.items()]
        for place, entry in entries:
            if entry.account is not None and entry.account not in self.accounts:
                known = nearest(entry.account, self.accounts) if self.accounts else "accounts: lists none"
                raise fault(f'"{entry.account}" is no account of this file; {known}', *place, "account")
        return self


@dataclass(frozen=True)
class Account:
    """Where a tenant's stack lives, and which variable holds the token for it."""

    id: str
    token_variable: str = TOKEN


@dataclass(frozen=True)
class Tenant:
    """One stack to be: named like the tenant, its config complete. `raw` is the config as it was written."""

    name: str
    account: Account
    config: RagConfig
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class Tenants:
    """What a file says, in its order."""

    path: Path
    all: tuple[Tenant, ...]
    secrets_provider: str | None = None

    def only(self, names: list[str]) -> tuple[Tenant, ...]:
        """The named ones, in the file's order; all where none is named. Raises ConfigError."""
        known = {tenant.name for tenant in self.all}
        if unknown := [name for name in names if name not in known]:
            faults = [f'"{name}" is not in {self.path.name}; {nearest(name, known)}' for name in unknown]
            raise ConfigError([("--only", each) for each in faults])
        return tuple(tenant for tenant in self.all if not names or tenant.name in names)


def load(
    path: Path,
    environment: Mapping[str, str] = os.environ,
    root: Path = ROOT,
    *,
    everybody: Account | None = None,
) -> Tenants:
    """The tenants of a file. Raises ConfigError with every fault, each by its path in the file.

    Without `accounts` in the file, CLOUDFLARE_ACCOUNT_ID of the environment is everybody's account. What
    the file says of accounts and of the secrets provider does not count where `everybody` is given.
    """
    raw = read_yaml(path)
    try:
        file = TenantsFile.model_validate(raw, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ConfigError(_in_file(path, problems(error, TenantsFile, ""))) from None
    faults: list[tuple[str, str]] = []
    tenants: list[Tenant] = []
    for name, entry in file.tenants.items():
        try:
            tenants.append(_tenant(name, entry, file, environment, root))
        except ConfigError as error:
            faults += error.problems
    faults += _same_names(tenants)
    if faults:
        raise ConfigError(_in_file(path, list(dict.fromkeys(faults))))
    if everybody is not None:
        there = tuple(replace(each, account=everybody) for each in tenants)
        return Tenants(path, there, None)
    return Tenants(path, tuple(tenants), file.secrets_provider)


def is_projects_own(name: str, root: Path = ROOT) -> bool:
    """Whether a stack is one of the project's environments, such as `prod`, and no tenant's."""
    return name == STACK or (root / f"Pulumi.{name}.yaml").exists()


def _in_file(path: Path, faults: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(f"{path.name}: {key.lstrip('.') or 'the file'}", message) for key, message in faults]


def _tenant(
    name: str, entry: TenantEntry, file: TenantsFile, environment: Mapping[str, str], root: Path
) -> Tenant:
    key = f"tenants.{name}"
    if is_projects_own(name, root):
        raise ConfigError([(key, "is a stack of this project, which no tenant can be; choose another name")])
    raw = merged(file.defaults.config, entry.config)
    try:
        config = RagConfig.from_pulumi(raw, "config")
        config.names(name)
    except ConfigError as error:
        faults = [(_where(each, name, entry.config), message) for each, message in error.problems]
        raise ConfigError(faults) from None
    return Tenant(name, _account(key, entry, file, environment), config, raw)


def _where(key: str, name: str, own: Mapping[str, Any]) -> str:
    """Where a fault was written: in the tenant's own config, or in what all share."""
    if not key.startswith("config"):
        return f"tenants.{name}"
    value: Any = own
    for part in key.removeprefix("config").lstrip(".").split("."):
        step = part.split("[")[0]
        if not isinstance(value, Mapping) or step not in value:
            return f"defaults.{key}"
        value = value[step]
    return f"tenants.{name}.{key}"


def _account(key: str, entry: TenantEntry, file: TenantsFile, environment: Mapping[str, str]) -> Account:
    wanted = entry.account or file.defaults.account
    if wanted is None and len(file.accounts) == 1:
        (wanted,) = file.accounts
    if wanted is not None:
        return Account(file.accounts[wanted].id, file.accounts[wanted].token)
    if file.accounts:
        raise ConfigError([(f"{key}.account", f"is needed, one of {', '.join(sorted(file.accounts))}")])
    if account_id := environment.get(ACCOUNT):
        return Account(account_id)
    raise ConfigError([("accounts", f"lists none, and {ACCOUNT} is not set")])


def _same_names(tenants: list[Tenant]) -> list[tuple[str, str]]:
    """Two tenants whose resources would be called the same: "a-b" of "c" is "a" of "b-c"."""
    seen: dict[tuple[str, str], str] = {}
    faults = []
    for tenant in tenants:
        prefix = tenant.config.names(tenant.name).prefix
        first = seen.setdefault((tenant.account.id, prefix), tenant.name)
        if first != tenant.name:
            faults.append(
                (f"tenants.{tenant.name}", f'resources would be called "{prefix}-…", as those of {first}')
            )
    return faults


def merged(defaults: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """`own` over `defaults`: mappings are merged, null takes a key away, anything else replaces."""
    result = dict(defaults)
    for key, value in own.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            below = result.get(key)
            result[key] = merged(below if isinstance(below, Mapping) else {}, value)
        else:
            result[key] = value
    return result


class _Loader(yaml.SafeLoader):
    """YAML in which a key may be written once only: a second tenant of one name would hide the first."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key_node.tag != "tag:yaml.org,2002:merge" and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'"{key}" is written twice', key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file. Raises ConfigError with the line at fault."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except FileNotFoundError:
        raise ConfigError([(str(path), "does not exist; name another with --file")]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([(path.name, f"is no text in UTF-8 (byte {error.start + 1})")]) from None
    except yaml.YAMLError as error:
        raise ConfigError([(path.name, " ".join(str(error).split()))]) from None


__all__ = ["Account", "Tenant", "Tenants", "TenantsFile", "load", "merged", "read_yaml"]
