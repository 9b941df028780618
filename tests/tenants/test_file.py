"""What `tenants.yaml` may say, and what is said about one that is wrong."""

from pathlib import Path

import pytest

from cfrag.pulumi_env import ROOT
from cfrag.tenants.file import Account, Tenants, load, merged
from infra.errors import ConfigError

ACCOUNT = "0" * 32
ENVIRONMENT = {"CLOUDFLARE_ACCOUNT_ID": ACCOUNT}


def written(folder: Path, text: str, environment: dict[str, str] | None = None) -> Tenants:
    path = folder / "tenants.yaml"
    path.write_text(text)
    return load(path, ENVIRONMENT if environment is None else environment)


def faults(folder: Path, text: str, environment: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        written(folder, text, environment)
    return str(refused.value).splitlines()


def test_a_tenants_config_is_the_defaults_with_its_own_over_them(tmp_path: Path) -> None:
    tenants = written(
        tmp_path,
        """
        defaults: {config: {name: rag, search: {defaultTopK: 5, maxTopK: 20}, docsPublic: true}}
        tenants:
          acme:
          globex: {config: {search: {defaultTopK: 7}}}
        """,
    )
    acme, globex = tenants.all
    assert (acme.name, acme.config.search.default_top_k) == ("acme", 5)
    assert (globex.config.search.default_top_k, globex.config.search.max_top_k) == (7, 20)
    assert globex.config.docs_public
    assert globex.config.names(globex.name).worker == "rag-globex-worker"


def test_null_takes_a_default_away() -> None:
    defaults = {"metadata": {"a": {"type": "string"}, "b": {"type": "number"}}, "cpuMs": 50}
    assert merged(defaults, {"metadata": {"a": None}, "cpuMs": None}) == {
        "metadata": {"b": {"type": "number"}}
    }


def test_lists_replace_and_what_is_merged_into_stays_as_it_was() -> None:
    defaults = {"cors": {"origins": ["https://a.example"]}}
    assert merged(defaults, {"cors": {"origins": ["*"]}}) == {"cors": {"origins": ["*"]}}
    assert defaults == {"cors": {"origins": ["https://a.example"]}}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "tenants: {acme: {konfig: {}}}",
            "tenants.yaml: tenants.acme.konfig: unknown key; did you mean config?",
        ),
        (
            "tenants: {acme: {config: {name: rag, serch: {}}}}",
            "tenants.yaml: tenants.acme.config.serch: unknown key; did you mean search?",
        ),
        (
            "tenants: {acme: {config: {name: rag, search: {defaultTopK: 60}}}}",
            "tenants.yaml: tenants.acme.config.search.defaultTopK: ",
        ),
        ("tenants: {acme: {}}", "tenants.yaml: defaults.config.name: is required"),
        ("tenants: {Acme: {}}", "tenants.yaml: tenants.Acme: becomes part of resource names"),
        ("tenants: {}", "tenants.yaml: tenants: names no tenant"),
        ("tenants: [acme]", "tenants.yaml: tenants: must be a mapping"),
        ("", "tenants.yaml: the file: must be a mapping"),
        (
            "defaults: {config: {name: rag}}\ntenants:\n  acme: {}\n  acme: {}",
            'tenants.yaml: "acme" is written twice in "',
        ),
        (
            "accounts: {eu: {id: abc}}\ntenants: {acme: {}}",
            'tenants.yaml: accounts.eu.id: "abc" is no account id',
        ),
        (
            "defaults: {account: eu, config: {name: rag}}\ntenants: {acme: {}}",
            'tenants.yaml: defaults.account: "eu" is no account of this file',
        ),
        (
            "defaults: {config: {name: rag}}\ntenants: {prod: {}}",
            "tenants.yaml: tenants.prod: is a stack of this project, which no tenant can be",
        ),
        (
            "tenants: {b-c: {config: {name: a}}, c: {config: {name: a-b}}}",
            'tenants.yaml: tenants.c: resources would be called "a-b-c-…", as those of b-c',
        ),
        (
            f"tenants: {{{'x' * 50}: {{config: {{name: a-long-name}}}}}}",
            f"tenants.yaml: tenants.{'x' * 50}: ",
        ),
    ],
)
def test_a_fault_is_named_by_its_path(tmp_path: Path, text: str, fault: str) -> None:
    assert faults(tmp_path, text)[0].startswith(fault)


def test_a_fault_in_the_defaults_is_named_once_and_there(tmp_path: Path) -> None:
    text = "defaults: {config: {name: rag, search: {topK: 3}}}\ntenants: {acme: {}, globex: {}}"
    said = faults(tmp_path, text)
    assert len(said) == 1
    assert said[0].startswith("tenants.yaml: defaults.config.search.topK: unknown key")


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    text = """
    defaults: {config: {name: rag}}
    tenants: {acme: {config: {serch: {}}}, globex: {config: {metadta: {}}}}
    """
    assert len(faults(tmp_path, text)) == 2


def test_an_account_is_chosen_by_name_and_its_token_by_variable(tmp_path: Path) -> None:
    accounts = f"accounts: {{eu: {{id: {'a1' * 16}, token: EU_TOKEN}}, us: {{id: {'b2' * 16}}}}}\n"
    rest = "defaults: {account: us, config: {name: rag}}\ntenants: {acme: {account: eu}, globex: }"
    acme, globex = written(tmp_path, accounts + rest, {}).all
    assert (acme.account.id, acme.account.token_variable) == ("a1" * 16, "EU_TOKEN")
    assert (globex.account.id, globex.account.token_variable) == ("b2" * 16, "CLOUDFLARE_API_TOKEN")


def test_without_accounts_in_the_file_the_environment_names_it(tmp_path: Path) -> None:
    text = "defaults: {config: {name: rag}}\ntenants: {acme: }"
    assert written(tmp_path, text).all[0].account.id == ACCOUNT
    assert "CLOUDFLARE_ACCOUNT_ID is not set" in faults(tmp_path, text, {})[0]


def test_on_this_machine_everybody_is_on_its_one_account() -> None:
    example = ROOT / "examples/tenants.yaml"
    assert {each.account.id for each in load(example, ENVIRONMENT).all} != {ACCOUNT}
    here = load(example, ENVIRONMENT, everybody=Account(ACCOUNT))
    assert {each.account for each in here.all} == {Account(ACCOUNT, "CLOUDFLARE_API_TOKEN")}
    assert here.secrets_provider is None


def test_one_of_several_accounts_has_to_be_chosen(tmp_path: Path) -> None:
    accounts = f"accounts: {{eu: {{id: {'a1' * 16}}}, us: {{id: {'b2' * 16}}}}}\n"
    said = faults(tmp_path, accounts + "defaults: {config: {name: rag}}\ntenants: {acme: }")
    assert said == ["tenants.yaml: tenants.acme.account: is needed, one of eu, us"]


def test_two_accounts_may_have_tenants_whose_names_compose_alike(tmp_path: Path) -> None:
    accounts = f"accounts: {{eu: {{id: {'a1' * 16}}}, us: {{id: {'b2' * 16}}}}}\n"
    tenants = "tenants: {b-c: {account: eu, config: {name: a}}, c: {account: us, config: {name: a-b}}}"
    assert len(written(tmp_path, accounts + tenants).all) == 2


def test_only_keeps_the_files_order_and_refuses_who_is_not_in_it(tmp_path: Path) -> None:
    tenants = written(tmp_path, "defaults: {config: {name: rag}}\ntenants: {a: , b: , c: }")
    assert [each.name for each in tenants.only(["c", "a"])] == ["a", "c"]
    assert len(tenants.only([])) == 3
    with pytest.raises(ConfigError, match=r'"d" is not in tenants\.yaml'):
        tenants.only(["d"])


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.yaml: does not exist"):
        load(tmp_path / "nowhere.yaml", ENVIRONMENT)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "tenants.yaml").write_bytes(b"tenants:\n  caf\xe9:\n")
    with pytest.raises(ConfigError, match=r"tenants.yaml: is no text in UTF-8 \(byte 15\)"):
        load(tmp_path / "tenants.yaml", ENVIRONMENT)
