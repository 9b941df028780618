"""What a RagStack asks the engine for."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from infra.errors import BundleError, ConfigError
from tests.stack.declared import SECRET, TOKEN, Declared, declare

RAG = {"name": "docs", "metadata": {"author": {"type": "string"}}}
REPLACING = {
    "embedding": {"model": "@cf/baai/bge-m3", "generation": 2},
    "replacing": {"generation": 1, "model": "@cf/baai/bge-base-en-v1.5"},
}
INTERNAL = ("pulumi:", "cfrag:index:RagStack")


def resources(rag: Mapping[str, Any] = RAG) -> dict[str, Declared]:
    return _declared(json.dumps(rag))


@cache
def _declared(rag: str) -> dict[str, Declared]:
    return declare(json.loads(rag))[0]


def ancestors(found: Mapping[str, Declared], name: str) -> set[str]:
    """Everything that is made before a resource, and removed after it."""
    direct = found[name].after
    return set(direct).union(*(ancestors(found, each) for each in direct))


def bindings(found: Mapping[str, Declared]) -> dict[str, Any]:
    value = found["version"].inputs["bindings"]
    return dict(value.get("value", value))


def test_everything_waits_for_the_embedding_space() -> None:
    found = resources()
    assert found["space"].after == frozenset()
    others = [n for n, each in found.items() if not each.type.startswith(INTERNAL) and n != "space"]
    assert len(others) > 12
    for name in others:
        assert "space" in ancestors(found, name), name


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("space", "index-g1"),
        ("index-g1", "g1-author"),
        ("g1-author", "worker"),
        ("db", "migrations"),
        ("migrations", "version"),
        ("ingest", "worker"),
        ("ingest-dlq", "worker"),
        ("worker", "version"),
        ("version", "deployment"),
        ("deployment", "consumer"),
        ("consumer", "activation"),
    ],
)
def test_what_another_needs_is_made_before_and_removed_after_it(earlier: str, later: str) -> None:
    found = resources()
    assert earlier in ancestors(found, later)
    assert later not in ancestors(found, earlier)


def test_names_are_those_of_the_config() -> None:
    found = resources()
    assert found["index-g1"].inputs["name"] == "docs-dev-768-g1"
    assert found["db"].inputs["name"] == "docs-dev-db"
    assert found["ingest"].inputs["queueName"] == "docs-dev-ingest"
    assert found["ingest-dlq"].inputs["queueName"] == "docs-dev-ingest-dlq"
    assert found["worker"].inputs["name"] == "docs-dev-worker"


def test_what_holds_data_is_protected_and_nothing_else() -> None:
    assert {name for name, each in resources().items() if each.protect} == {"index-g1", "db"}
    assert resources()["index-g1"].inputs["deletion"] == "protected"


def test_data_may_go_when_the_config_allows_it() -> None:
    found = resources({**RAG, "allowDataLoss": True})
    assert not any(each.protect for each in found.values())
    assert found["index-g1"].inputs["deletion"] == "allowed"


def test_every_filterable_property_has_its_metadata_index() -> None:
    found = resources().values()
    made = {
        (each.inputs["propertyName"], each.inputs["indexType"])
        for each in found
        if each.type == "cfrag:index:VectorizeMetadataIndex"
    }
    assert made == {("tags", "string"), ("tags_1", "string"), ("active", "boolean"), ("author", "string")}


def test_bindings_are_those_of_the_contract() -> None:
    assert {name: value["type"] for name, value in bindings(resources()).items()} == {
        "AI": "ai",
        "DB": "d1",
        "VECTORIZE": "vectorize",
        "RAG_INGEST_QUEUE": "queue",
        "RAG_DLQ": "queue",
        "INTERNAL_API_SECRET": "secret_text",
        "EMBED_MODEL": "plain_text",
        "EMBED_DIMS": "plain_text",
        "EMBED_GENERATION": "plain_text",
        "AUTO_REINDEX_ON_MODEL_CHANGE": "plain_text",
    }
    assert bindings(resources())["DB"] == {"type": "d1", "id": "db-id"}


def test_secrets_that_the_stack_doesnt_set_are_inherited() -> None:
    assert bindings(resources({**RAG, "inheritSecrets": ["OTHER"]}))["OTHER"] == {"type": "inherit"}


def test_a_rate_limit_is_a_binding() -> None:
    bound = bindings(resources({**RAG, "rateLimit": {"limit": 5, "period": 10}}))["RATE_LIMIT"]
    assert bound["simple"] == {"limit": 5, "period": 10}
    assert bound["namespace_id"].isdigit()


def test_secrets_reach_the_engine_only_as_secrets() -> None:
    found = resources()
    assert "apiToken" in found["cloudflare"].secret
    assert "apiToken" in found["cfrag"].secret
    assert "bindings" in found["version"].secret
    for each in found.values():
        plain = {key: value for key, value in each.inputs.items() if key not in each.secret}
        assert SECRET not in str(plain)
        assert TOKEN not in str(plain)


def test_every_resource_uses_the_stacks_own_provider() -> None:
    for name, each in resources().items():
        if each.type.startswith(("cloudflare:", "cfrag:")) and each.type != "cfrag:index:RagStack":
            assert each.provider == each.type.split(":")[0], name


def test_the_consumer_has_the_configs_settings_and_its_dead_letters_can_be_pulled() -> None:
    queue = {"batchSize": 7, "maxRetries": 2, "maxWaitSeconds": 9, "maxConcurrency": 3}
    found = resources({**RAG, "queue": queue})
    assert found["consumer"].inputs["settings"] == {
        "batchSize": 7,
        "maxRetries": 2,
        "maxWaitTimeMs": 9000,
        "maxConcurrency": 3,
    }
    assert found["consumer"].inputs["deadLetterQueue"] == "docs-dev-ingest-dlq"
    assert found["consumer"].inputs["scriptName"] == "docs-dev-worker"
    assert found["ingest-dlq-consumer"].inputs["type"] == "http_pull"


@pytest.mark.parametrize(("queue", "days"), [({}, 14), ({"deadLetterDays": 1}, 1)])
def test_what_was_given_up_is_kept_for_14_days_unless_the_config_says_less(
    queue: dict[str, int], days: int
) -> None:
    found = resources({**RAG, "queue": queue})
    assert found["ingest-dlq"].inputs["settings"] == {"messageRetentionPeriod": days * 86_400}
    assert "settings" not in found["ingest"].inputs


def test_read_replication_is_always_said() -> None:
    assert resources()["db"].inputs["readReplication"] == {"mode": "disabled"}
    assert resources({**RAG, "readReplication": "auto"})["db"].inputs["readReplication"] == {"mode": "auto"}


def test_while_replacing_both_indexes_exist_and_either_may_go_once_the_data_lives_in_the_other() -> None:
    found = resources({**RAG, **REPLACING})
    assert found["index-g2"].inputs["name"] == "docs-dev-1024-g2"
    for name in ("index-g1", "index-g2"):
        assert found[name].inputs["deletion"] == "when-replaced"
        assert not found[name].protect
    assert found["space"].inputs["replacing"] == {
        "generation": 1,
        "model": "@cf/baai/bge-base-en-v1.5",
        "dims": 768,
        "metric": "cosine",
        "index": "docs-dev-768-g1",
        "strategy": "reindex",
    }


def test_while_replacing_the_worker_reads_both_indexes() -> None:
    found = resources({**RAG, **REPLACING})
    assert bindings(found)["VECTORIZE"]["index_name"] == "docs-dev-768-g1"
    assert bindings(found)["VECTORIZE_NEXT"]["index_name"] == "docs-dev-1024-g2"
    assert bindings(found)["EMBED_MODEL"]["text"] == "@cf/baai/bge-m3"
    assert {"g1-author", "g2-author"} <= ancestors(found, "worker")


def test_a_service_has_no_address() -> None:
    found, outputs = declare({**RAG, "auth": {"mode": "service"}})
    assert found["worker"].inputs["subdomain"]["enabled"] is False
    assert outputs["url"] is None


@pytest.mark.parametrize(
    ("rag", "options", "url"),
    [
        ({}, {}, "https://worker.example"),
        ({}, {"url": "http://127.0.0.1:7"}, "http://127.0.0.1:7"),
        ({"domain": {"hostname": "rag.example.com", "zoneId": "z"}}, {}, "https://rag.example.com"),
    ],
)
def test_the_address_is_the_one_that_people_use(
    rag: dict[str, Any], options: dict[str, Any], url: str
) -> None:
    assert declare({**RAG, **rag}, **options)[1]["url"] == url


def test_outputs_hold_no_secret() -> None:
    outputs = declare(RAG)[1]
    assert outputs["indexName"] == "docs-dev-768-g1"
    assert outputs["databaseId"] == "db-id"
    assert SECRET not in str(outputs)
    assert TOKEN not in str(outputs)


def test_names_over_the_limit_are_refused_before_anything_is_declared() -> None:
    with pytest.raises(ConfigError, match="at most 63"):
        declare({"name": "x" * 60})


def test_a_bundle_at_fault_is_refused_before_anything_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise BundleError("no bundle")

    monkeypatch.setattr("infra.bundle.render", fail)
    with pytest.raises(BundleError, match="no bundle"):
        declare(RAG)


def test_nothing_is_removed_before_the_resource_that_refuses_it() -> None:
    found = resources({**RAG, "domain": {"hostname": "rag.example.com", "zoneId": "z"}})
    own = {name for name, each in found.items() if not each.type.startswith(INTERNAL)}
    needed = set().union(*(found[name].after for name in own))
    assert own - needed == {"activation"}
    assert found["activation"].inputs["deletion"] == "protected"
    assert found["activation"].inputs["index"] == "docs-dev-768-g1"
