"""What a stack needs besides its RagConfig, read from Pulumi's config."""

import json
from typing import Any

import pulumi
import pytest

from infra.errors import ConfigError
from infra.settings import RagStackArgs

pytestmark = pytest.mark.usefixtures("pulumi_loop")

SECRET = "0123456789abcdef0123456789abcdef"
COMPLETE = {
    "cf-rag:rag": json.dumps({"name": "docs"}),
    "cf-rag:accountId": "account",
    "cf-rag:internalApiSecret": SECRET,
    "cloudflare:apiToken": "token",
}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads the settings of a stack `dev` of the project `cf-rag` with the given config."""
    monkeypatch.setattr(pulumi, "get_project", lambda: "cf-rag")
    monkeypatch.setattr(pulumi, "get_stack", lambda: "dev")
    monkeypatch.setattr("pulumi.config.get_project", lambda: "cf-rag")

    def read(**changes: str | None) -> RagStackArgs:
        config = {key: value for key, value in (COMPLETE | changes).items() if value is not None}
        pulumi.runtime.set_all_config(config)
        return RagStackArgs.from_pulumi()

    return read


def test_a_complete_config_is_taken(load: Any) -> None:
    args = load()
    assert (args.account_id, args.config.name, args.url) == ("account", "docs", None)
    assert args.owner == "cfrag:cf-rag/dev"
    assert set(args.secrets) == {"INTERNAL_API_SECRET"}


@pytest.mark.parametrize("key", COMPLETE)
def test_a_missing_setting_is_named(load: Any, key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: is not set"):
        load(**{key: None})


def test_missing_settings_are_named_together(load: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        load(**{"cf-rag:accountId": None, "cloudflare:apiToken": None})
    assert [key for key, _ in caught.value.problems] == ["cf-rag:accountId", "cloudflare:apiToken"]


def test_a_fault_in_the_service_is_named_by_its_pulumi_key(load: Any) -> None:
    with pytest.raises(ConfigError, match=r"cf-rag:rag\.serch: unknown key; did you mean search\?"):
        load(**{"cf-rag:rag": json.dumps({"name": "docs", "serch": {}})})


@pytest.mark.parametrize("value", ['["docs"]', '"docs"', "7"])
def test_a_service_that_is_no_mapping_is_refused(load: Any, value: str) -> None:
    with pytest.raises(ConfigError, match="cf-rag:rag: must be a mapping"):
        load(**{"cf-rag:rag": value})


def test_a_service_that_is_no_json_is_refused(load: Any) -> None:
    with pytest.raises(ConfigError, match="cf-rag:rag: must be a mapping"):
        load(**{"cf-rag:rag": "docs"})


def test_a_short_secret_is_refused_without_showing_it(load: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        load(**{"cf-rag:internalApiSecret": "tooshort"})
    assert "cf-rag:internalApiSecret: is 8 bytes; at least 32" in str(caught.value)
    assert "tooshort" not in str(caught.value)


def test_two_secrets_are_taken_during_a_rotation(load: Any) -> None:
    args = load(**{"cf-rag:internalApiSecretPrevious": SECRET[::-1]})
    assert set(args.secrets) == {"INTERNAL_API_SECRET", "INTERNAL_API_SECRET_PREVIOUS"}


def test_a_service_without_an_api_needs_no_secret(load: Any) -> None:
    rag = json.dumps({"name": "docs", "auth": {"mode": "service"}})
    assert load(**{"cf-rag:rag": rag, "cf-rag:internalApiSecret": None}).secrets == {}


def test_secrets_are_pulumi_secrets(load: Any) -> None:
    args = load()
    for output in (args.api_token, *args.secrets.values()):
        assert pulumi.runtime.sync_await._sync_await(output.is_secret())
