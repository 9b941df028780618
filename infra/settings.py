"""What a stack is given besides its RagConfig: the account, and secrets."""

import json
from dataclasses import dataclass
from typing import Any, Self

import pulumi

from infra.config import CONFIG_KEY, RagConfig
from infra.errors import ConfigError

SECRET_BYTES = 32


@dataclass(frozen=True)
class RagStackArgs:
    """Everything that decides a stack; secrets are Pulumi secrets from here on."""

    project: str
    stack: str
    config: RagConfig
    account_id: str
    api_token: pulumi.Output[str]
    # By binding; none where the API isn't served over HTTP, two during a rotation.
    secrets: dict[str, pulumi.Output[str]]
    url: str | None = None

    @property
    def owner(self) -> str:
        """Who the stack's index belongs to, as its description says."""
        return f"cfrag:{self.project}/{self.stack}"

    @classmethod
    def from_pulumi(cls) -> Self:
        """The settings of the selected stack. Raises ConfigError naming each key at fault."""
        settings, cloudflare = pulumi.Config(), pulumi.Config("cloudflare")
        raw, account, url = settings.get("rag"), settings.get("accountId"), settings.get("url")
        missing = [
            (key, message)
            for key, value, message in (
                (CONFIG_KEY, raw, "is not set; see docs/configuration.md for what it holds"),
                ("cf-rag:accountId", account, "is not set: `pulumi config set accountId <id>`"),
                ("cloudflare:apiToken", cloudflare.get("apiToken"), _set_secret("cloudflare:apiToken")),
            )
            if not value
        ]
        if missing or raw is None or account is None:
            raise ConfigError(missing)
        config = RagConfig.from_pulumi(_mapping(raw))
        return cls(
            project=pulumi.get_project(),
            stack=pulumi.get_stack(),
            config=config,
            account_id=account,
            api_token=cloudflare.require_secret("apiToken"),
            secrets=_secrets(settings, config),
            url=url,
        )


def _mapping(text: str) -> dict[str, Any]:
    """The object that Pulumi hands over as JSON."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if not isinstance(value, dict):
        raise ConfigError([(CONFIG_KEY, f"must be a mapping of keys to values, not {value!r}")])
    return value


def _set_secret(key: str) -> str:
    return f"is not set: `pulumi config set --secret {key}`"


def _secrets(settings: pulumi.Config, config: RagConfig) -> dict[str, pulumi.Output[str]]:
    """The internal secret, and the one before it while a rotation is under way."""
    keys = {
        "INTERNAL_API_SECRET": "internalApiSecret",
        "INTERNAL_API_SECRET_PREVIOUS": "internalApiSecretPrevious",
    }
    given = {binding: key for binding, key in keys.items() if settings.get(key)}
    if "INTERNAL_API_SECRET" not in given and config.serves_http:
        raise ConfigError([("cf-rag:internalApiSecret", _set_secret("internalApiSecret"))])
    for key in given.values():
        size = len(settings.require(key).encode())
        if size < SECRET_BYTES:
            raise ConfigError(
                [
                    (
                        f"cf-rag:{key}",
                        f"is {size} bytes; at least {SECRET_BYTES} random ones: `openssl rand -hex 32`",
                    )
                ]
            )
    return {binding: settings.require_secret(key) for binding, key in given.items()}
