"""What has to be right before the first `pulumi up` of a stack: on this machine and in its settings."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from importlib.metadata import version
from typing import Any, Literal

from cfrag.pulumi_run import PulumiStack, last_words
from infra.bundle import render, shown_size
from infra.bundle.manifest import COMPATIBILITY_DATE
from infra.bundle.project import stack_config
from infra.config import RagConfig
from infra.errors import CfragError
from infra.settings import SECRET_BYTES

Status = Literal["ok", "warning", "failed", "skipped"]
PYTHON_314_DATE = date(2026, 9, 8)
"""The compatibility date from which a Python Worker runs on 3.14 (workers-py 1.17.9)."""


@dataclass(frozen=True)
class Finding:
    """What a check saw; `fix` is what to do about it."""

    check: str
    status: Status
    detail: str
    fix: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


class Settings:
    """A stack's settings: the typed config, and with Pulumi's help what is secret in them."""

    def __init__(self, stack: PulumiStack) -> None:
        self.stack = stack

    @cached_property
    def config(self) -> RagConfig:
        """Raises ConfigError."""
        return RagConfig.from_pulumi(stack_config(self.stack.name, self.stack.folder))

    @cached_property
    def values(self) -> dict[str, str]:
        """Every value in clear, for this process only. Raises InputError where Pulumi can't read them."""
        read = self.stack.read("config", "--json", "--show-secrets")
        return {key: str(each.get("value", "")) for key, each in read.items()}

    def secret(self, key: str) -> bool:
        """Whether a value is encrypted in the settings file."""
        return bool(self.stack.read("config", "--json").get(key, {}).get("secret"))


def machine(stack: PulumiStack) -> Iterator[Finding]:
    """Versions of what runs here: Python, Node.js, the Pulumi CLI, its SDK and the cloudflare plugin."""
    # Of the project's folder, not of the installed package.
    from tools.prerequisites import NODE, PYTHON, found_version
    from tools.pulumi_tools import OLDEST_CLI

    yield _at_least("python", sys.version_info[:3], PYTHON, "make PYTHON=python3.12 setup")
    node = found_version(["node", "--version"])
    if node is None and stack.name != "local":
        yield Finding("node", "skipped", "not found; only the Cloudflare on this machine needs it")
    else:
        yield _at_least("node", node, NODE, "install Node.js from nodejs.org")
    try:
        said = stack.run("version", stack=False).stdout
    except CfragError as error:
        yield Finding("pulumi", "failed", str(error), "make setup")
        return
    yield _at_least("pulumi", _numbers(said), OLDEST_CLI, "make setup")
    yield _sdk(_numbers(said))
    yield _plugin(stack)


def _numbers(text: str) -> tuple[int, ...] | None:
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
    return tuple(map(int, match.groups())) if match else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _at_least(check: str, found: tuple[int, ...] | None, least: tuple[int, ...], fix: str) -> Finding:
    if found is None or found < least:
        return Finding(
            check, "failed", f"{_dotted(found) if found else 'none'}; at least {_dotted(least)}", fix
        )
    return Finding(check, "ok", _dotted(found))


def _sdk(cli: tuple[int, ...] | None) -> Finding:
    sdk = _numbers(version("pulumi")) or ()
    if cli and cli[0] != sdk[0]:
        return Finding(
            "pulumi sdk",
            "failed",
            f"{_dotted(sdk)} with CLI {_dotted(cli)}",
            "use a CLI of the same major version",
        )
    return Finding("pulumi sdk", "ok", _dotted(sdk))


def _plugin(stack: PulumiStack) -> Finding:
    """An older plugin than the SDK silently drops arguments that it does not know."""
    check, wanted = "cloudflare plugin", version("pulumi-cloudflare")
    done = stack.run("plugin", "ls", "--json", stack=False)
    if done.returncode:
        return Finding(check, "failed", last_words(done), "pulumi plugin ls")
    found = [each.get("version") for each in json.loads(done.stdout) if each["name"] == "cloudflare"]
    if wanted in found:
        return Finding(check, "ok", wanted)
    fix = f"pulumi plugin install resource cloudflare {wanted}"
    others = f" (found {', '.join(filter(None, found))})" if found else ""
    if stack.environment.get("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION") == "true":
        return Finding(check, "failed", f"{wanted} is not installed{others}", fix)
    return Finding(check, "warning", f"{wanted} is not installed{others}; the first `up` downloads it", fix)


def service(settings: Settings) -> Iterator[Finding]:
    """The typed config, the compatibility date, and the size of the Worker that comes out of it."""
    try:
        config = settings.config
        names = config.names(settings.stack.name)
        yield Finding("config", "ok", f"{names.prefix}: {config.model.name}, {config.model.dims} dims")
    except CfragError as error:
        yield Finding("config", "failed", str(error), f"edit Pulumi.{settings.stack.name}.yaml")
        return
    yield compatibility(date.fromisoformat(COMPATIBILITY_DATE), datetime.now(UTC).date())
    try:
        yield Finding("bundle", "ok", shown_size(render(config)))
    except CfragError as error:
        yield Finding("bundle", "failed", str(error), "make setup")


def compatibility(wanted: date, today: date) -> Finding:
    """Cloudflare refuses a date in the future, and before a certain one there is no Python 3.14."""
    check = "compatibility date"
    if wanted > today:
        return Finding(check, "failed", f"{wanted} is in the future ({today})", "set this machine's clock")
    if wanted < PYTHON_314_DATE:
        return Finding(
            check, "failed", f"{wanted} is before {PYTHON_314_DATE}", "raise it in infra/bundle/manifest.py"
        )
    return Finding(check, "ok", str(wanted))


def state(settings: Settings) -> Iterator[Finding]:
    """Backend, stack and secrets, as far as Pulumi gets."""
    stack = settings.stack
    who = stack.run("whoami", "--verbose", "--json", stack=False)
    if who.returncode:
        yield Finding("backend", "failed", last_words(who), "pulumi login, or set PULUMI_BACKEND_URL")
        return
    yield Finding("backend", "ok", _without_password(json.loads(who.stdout).get("url", "")))
    try:
        values = settings.values
    except CfragError as error:
        yield Finding("stack", "failed", str(error), _reach(stack.name, str(error)))
        return
    yield Finding("stack", "ok", stack.name)
    yield from _given(settings, values)


def _without_password(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)


def _reach(name: str, said: str) -> str:
    if "passphrase" in said:
        return "set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE"
    return f"pulumi stack init {name}"


def _given(settings: Settings, values: dict[str, str]) -> Iterator[Finding]:
    """What a stack needs besides its RagConfig, encrypted where it is secret."""
    yield _set(values, "cf-rag:accountId", "pulumi config set cf-rag:accountId <id>")
    secrets = ["cloudflare:apiToken"]
    if settings.config.serves_http:
        secrets.append("cf-rag:internalApiSecret")
    for key in secrets:
        how = f"pulumi config set --secret {key}"
        found = _set(values, key, how)
        size = len(values.get(key, "").encode())
        if found.status == "ok" and not settings.secret(key):
            found = Finding(
                key, "failed", "is in clear in the settings file", f"{how}; then replace the value"
            )
        elif found.status == "ok" and key.endswith("Secret") and size < SECRET_BYTES:
            detail = f"{size} bytes; at least {SECRET_BYTES} random ones"
            found = Finding(key, "failed", detail, f'{how} "$(openssl rand -hex 32)"')
        yield found


def _set(values: dict[str, Any], key: str, fix: str) -> Finding:
    return Finding(key, "ok", "is set") if values.get(key) else Finding(key, "failed", "is not set", fix)
