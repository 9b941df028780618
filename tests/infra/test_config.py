"""What a stack's config accepts, and how it says what it doesn't."""

from typing import Any

import pytest

from infra.catalog import EMBEDDING_MODELS, VECTORIZE_DIMENSIONS
from infra.config import MetadataIndex, RagConfig, fingerprint
from infra.errors import ConfigError
from infra.sections import matches

QWEN = "@cf/qwen/qwen3-embedding-0.6b"


def load(**values: Any) -> RagConfig:
    return RagConfig.from_pulumi({"name": "docs", **values})


def refusal(**values: Any) -> tuple[str, str]:
    """The key and the message of the only fault of a config."""
    with pytest.raises(ConfigError) as caught:
        load(**values)
    (problem,) = caught.value.problems
    return problem


def fields(count: int, **options: Any) -> dict[str, Any]:
    return {f"field{number}": {"type": "string", **options} for number in range(count)}


def test_a_name_is_all_that_is_needed() -> None:
    config = load()
    assert config.model.dims == 768
    assert config.embedding.generation == 1
    assert config.replacing is None
    assert not config.allow_data_loss


def test_keys_are_camel_case_outside_and_snake_case_inside() -> None:
    assert load(search={"maxTopK": 20, "defaultTopK": 5}).search.max_top_k == 20
    key, message = refusal(search={"max_top_k": 20})
    assert key == "cf-rag:rag.search.max_top_k"
    assert "did you mean maxTopK?" in message


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    key, message = refusal(metadat={})
    assert key == "cf-rag:rag.metadat"
    assert "unknown key; did you mean metadata?" in message


def test_an_unknown_key_far_inside_is_named_by_its_whole_path() -> None:
    with pytest.raises(ConfigError) as caught:
        load(metadata={"author": {"typ": "string"}})
    problems = dict(caught.value.problems)
    assert problems["cf-rag:rag.metadata.author.type"] == "is required"
    assert "did you mean type?" in problems["cf-rag:rag.metadata.author.typ"]


def test_every_fault_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load(dashboard="yes", queue={"batchSize": 101}, cors={"origins": "x"})
    keys = {key for key, _ in caught.value.problems}
    assert keys == {"cf-rag:rag.dashboard", "cf-rag:rag.queue.batchSize", "cf-rag:rag.cors.origins"}


@pytest.mark.parametrize(
    ("values", "key", "message"),
    [
        ({"dashboard": "yes"}, "dashboard", "must be true or false, not 'yes'"),
        ({"dashboard": 1}, "dashboard", "must be true or false, not 1"),
        ({"queue": {"batchSize": "10"}}, "queue.batchSize", "must be a whole number, not '10'"),
        ({"queue": {"batchSize": 1.5}}, "queue.batchSize", "must be a whole number, not 1.5"),
        ({"queue": 3}, "queue", "must be a mapping of keys to values, not 3"),
        ({"metadata": ["author"]}, "metadata", "must be a mapping of keys to values, not ['author']"),
        ({"cors": {"origins": "*"}}, "cors.origins", "must be a list, not '*'"),
        ({"name": 7}, "name", "must be a string, not 7"),
        (
            {"embedding": {"metric": "dot_product"}},
            "embedding.metric",
            "'cosine', 'euclidean' or 'dot-product'",
        ),
        (
            {"metadata": {"author": {"type": "text"}}},
            "metadata.author.type",
            "'string', 'number' or 'boolean'",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_shown_with_the_right_one(
    values: dict[str, Any], key: str, message: str
) -> None:
    found, said = refusal(**values)
    assert found == f"cf-rag:rag.{key}"
    assert message in said


def test_a_missing_name_is_named() -> None:
    with pytest.raises(ConfigError, match=r"cf-rag:rag\.name: is required"):
        RagConfig.from_pulumi({})


def test_an_unknown_model_is_answered_with_the_nearest_one() -> None:
    key, message = refusal(embedding={"model": "bge-m3"})
    assert key == "cf-rag:rag.embedding.model"
    assert "did you mean @cf/baai/bge-m3?" in message


@pytest.mark.parametrize("name", [name for name, model in EMBEDDING_MODELS.items() if model.dims <= 1536])
def test_every_model_whose_vectors_fit_can_be_chosen(name: str) -> None:
    assert load(embedding={"model": name}).model is EMBEDDING_MODELS[name]


def test_a_model_with_too_many_dims_is_refused_with_both_numbers_and_the_source() -> None:
    key, message = refusal(embedding={"model": "@cf/pfnet/plamo-embedding-1b"})
    assert key == "cf-rag:rag.embedding.model"
    assert "2,048 dimensions" in message
    assert "at most 1,536" in message
    assert VECTORIZE_DIMENSIONS.source in message


def test_filterable_fields_get_a_metadata_index_and_others_none() -> None:
    config = load(
        tags={"maxPerDocument": 3},
        metadata={
            "year": {"type": "number"},
            "author": {"type": "string"},
            "note": {"type": "string", "filterable": False},
        },
    )
    assert config.metadata_indexes() == [
        MetadataIndex("tags", "string"),
        MetadataIndex("tags_1", "string"),
        MetadataIndex("tags_2", "string"),
        MetadataIndex("active", "boolean"),
        MetadataIndex("author", "string"),
        MetadataIndex("year", "number"),
    ]


def test_ten_metadata_indexes_fit_and_eleven_are_refused() -> None:
    assert len(load(metadata=fields(7)).metadata_indexes()) == 10
    key, message = refusal(metadata=fields(8))
    assert key == "cf-rag:rag.metadata"
    assert "11 metadata indexes" in message
    assert "at most 10" in message
    assert "filterable: false" in message


def test_fields_that_are_not_filterable_dont_count() -> None:
    assert len(load(metadata=fields(40, filterable=False)).metadata_indexes()) == 3


@pytest.mark.parametrize(
    "name",
    ["id", "rawBody", "title", "body", "content", "tags", "tags_1", "tags_12", "active", "contentHash"],
)
def test_a_reserved_field_name_is_refused(name: str) -> None:
    key, message = refusal(metadata={name: {"type": "string"}})
    assert key == f"cf-rag:rag.metadata.{name}"
    assert "reserved" in message


@pytest.mark.parametrize("name", ["", "$eq", "a.b", 'a"b', "1st", "a b", "x" * 64, "naïve"])
def test_a_field_name_that_vectorize_or_a_schema_could_not_take_is_refused(name: str) -> None:
    key, message = refusal(metadata={name: {"type": "string"}})
    assert key == f"cf-rag:rag.metadata.{name}"
    assert "no field name" in message


@pytest.mark.parametrize("name", ["tagsy", "tags_", "author", "source_url", "x" * 63, "class"])
def test_other_field_names_are_free(name: str) -> None:
    assert name in load(metadata={name: {"type": "string"}}).metadata


@pytest.mark.parametrize(
    ("kind", "values"),
    [("string", ["a", 1]), ("number", [1, True]), ("number", ["1"]), ("boolean", [0]), ("string", [True])],
)
def test_an_enum_value_of_another_type_is_refused(kind: str, values: list[Any]) -> None:
    key, message = refusal(metadata={"kind": {"type": kind, "enum": values}})
    assert key == f"cf-rag:rag.metadata.kind.enum[{len(values) - 1}]"
    assert f"is not a {kind}" in message


def test_an_enum_of_numbers_may_mix_whole_and_other_ones() -> None:
    assert load(metadata={"size": {"type": "number", "enum": [1, 2.5]}}).metadata["size"].enum == (1, 2.5)


@pytest.mark.parametrize("values", [[], ["a", "a"], [1, 1.0]])
def test_an_empty_or_repeating_enum_is_refused(values: list[Any]) -> None:
    kind = "string" if "a" in values else "number"
    key, _ = refusal(metadata={"kind": {"type": kind, "enum": values}})
    assert key == "cf-rag:rag.metadata.kind.enum"


def test_a_filterable_enum_value_over_64_bytes_is_refused_and_another_is_not() -> None:
    long = "é" * 33
    key, message = refusal(metadata={"kind": {"type": "string", "enum": ["ok", long]}})
    assert key == "cf-rag:rag.metadata.kind.enum[1]"
    assert "66 bytes" in message
    assert load(metadata={"kind": {"type": "string", "enum": [long], "filterable": False}})


@pytest.mark.parametrize("slots", [0, 5])
def test_tag_slots_are_one_to_four(slots: int) -> None:
    assert refusal(tags={"maxPerDocument": slots})[0] == "cf-rag:rag.tags.maxPerDocument"


def test_topk_is_at_most_50_and_its_default_within() -> None:
    assert "at most 50" in refusal(search={"maxTopK": 51})[1]
    assert refusal(search={"maxTopK": 5})[0] == "cf-rag:rag.search.defaultTopK"
    assert refusal(search={"defaultTopK": 0})[0] == "cf-rag:rag.search.defaultTopK"


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ({"batchSize": 101}, "at most 100"),
        ({"batchSize": 0}, "at least 1"),
        ({"maxRetries": 101}, "at most 100"),
        ({"maxWaitSeconds": 61}, "at most 60"),
        ({"maxConcurrency": 251}, "at most 250"),
    ],
)
def test_queue_settings_stay_within_the_platforms_limits(queue: dict[str, int], said: str) -> None:
    key, message = refusal(queue=queue)
    assert key == f"cf-rag:rag.queue.{next(iter(queue))}"
    assert said in message


def test_no_retries_and_no_wait_are_allowed() -> None:
    assert load(queue={"maxRetries": 0, "maxWaitSeconds": 0}).queue.max_retries == 0


@pytest.mark.parametrize("generation", [2, 4, 1])
def test_what_is_replaced_is_the_generation_before(generation: int) -> None:
    embedding = {"model": QWEN, "generation": 4}
    replacing = {"generation": generation, "model": "@cf/baai/bge-base-en-v1.5"}
    assert refusal(embedding=embedding, replacing=replacing)[0] == "cf-rag:rag.replacing.generation"


def test_a_replacement_names_the_old_model() -> None:
    config = load(
        embedding={"model": QWEN, "generation": 2},
        replacing={"generation": 1, "model": "@cf/baai/bge-base-en-v1.5"},
    )
    assert config.old_model is EMBEDDING_MODELS["@cf/baai/bge-base-en-v1.5"]
    assert config.replacing
    assert config.replacing.strategy == "reindex"
    assert refusal(replacing={"generation": 1, "model": "bge"})[0] == "cf-rag:rag.replacing.model"


@pytest.mark.parametrize("generation", [0, -1])
def test_generations_count_from_one(generation: int) -> None:
    assert refusal(embedding={"generation": generation})[0] == "cf-rag:rag.embedding.generation"


def test_inherited_secrets_are_sorted_and_none_that_the_stack_sets_itself() -> None:
    assert load(inheritSecrets=["ZEBRA", "APPLE", "ZEBRA"]).inherit_secrets == ("APPLE", "ZEBRA")
    assert refusal(inheritSecrets=["DB"])[0] == "cf-rag:rag.inheritSecrets[0]"
    assert refusal(inheritSecrets=["FINE", "not fine"])[0] == "cf-rag:rag.inheritSecrets[1]"


@pytest.mark.parametrize("origin", ["example.com", "https://example.com/path", "ftp://example.com", ""])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    assert refusal(cors={"origins": ["*", origin]})[0] == "cf-rag:rag.cors.origins[1]"


def test_a_service_has_no_mcp_no_dashboard_and_no_domain() -> None:
    config = load(auth={"mode": "service"})
    assert [config.serves_http, config.serves_mcp, config.serves_dashboard] == [False, False, False]
    for key, value in {
        "mcp": {"enabled": True},
        "dashboard": True,
        "domain": {"hostname": "rag.example.com", "zoneId": "z"},
    }.items():
        assert refusal(auth={"mode": "service"}, **{key: value})[0] == f"cf-rag:rag.{key}"


def test_mcp_needs_someone_who_can_log_in() -> None:
    assert load().serves_mcp
    assert not load(auth={"mode": "secret"}).serves_mcp
    assert load(auth={"mode": "secret"}, mcp={"internalSecret": True}).serves_mcp
    assert refusal(auth={"mode": "secret"}, mcp={"enabled": True})[0] == "cf-rag:rag.mcp"


@pytest.mark.parametrize("rate", [0, -5])
def test_a_rate_limit_lets_someone_through(rate: int) -> None:
    assert refusal(rateLimit={"limit": rate})[0] == "cf-rag:rag.rateLimit.limit"


def test_a_rate_limit_period_is_one_of_cloudflares() -> None:
    key, message = refusal(rateLimit={"limit": 5, "period": 30})
    assert key == "cf-rag:rag.rateLimit.period"
    assert "10 or 60" in message


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_the_sampling_rate_is_a_share(share: float) -> None:
    key, _ = refusal(observability={"headSamplingRate": share})
    assert key == "cf-rag:rag.observability.headSamplingRate"


def test_a_share_may_be_written_as_a_whole_number() -> None:
    assert load(observability={"headSamplingRate": 1}).observability.head_sampling_rate == 1


@pytest.mark.parametrize(
    "hostname", ["https://rag.example.com", "rag", "rag.example.com/x", "Rag.Example.com"]
)
def test_a_domain_is_a_host_name(hostname: str) -> None:
    assert refusal(domain={"hostname": hostname, "zoneId": "z"})[0] == "cf-rag:rag.domain.hostname"


@pytest.mark.parametrize("name", ["", "Docs", "my_docs", "-docs", "docs-", "döcs", "a b"])
def test_a_name_that_no_resource_could_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"cf-rag:rag\.name"):
        RagConfig.from_pulumi({"name": name})


def test_message_text_may_hold_braces() -> None:
    _, message = refusal(embedding={"model": "{input}"})
    assert '"{input}" is not in the catalog' in message


def test_a_config_cant_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().search.max_top_k = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    "change",
    [
        {"name": "@cf/other"},
        {"dims": 1},
        {"pooling": "mean"},
        {"query_instruction": "Find: "},
    ],
)
def test_the_fingerprint_changes_with_whatever_changes_the_vectors(change: dict[str, Any]) -> None:
    model = EMBEDDING_MODELS["@cf/baai/bge-base-en-v1.5"]
    assert fingerprint(model._replace(**change)) != fingerprint(model)


def test_the_fingerprint_doesnt_depend_on_price_or_limits() -> None:
    model = EMBEDDING_MODELS[QWEN]
    cheaper = model._replace(price_per_million_tokens=0.0, max_batch=1, as_of="2030-01-01")
    assert fingerprint(cheaper) == fingerprint(model)
    assert load(embedding={"model": QWEN}).fingerprint() == fingerprint(model)


@pytest.mark.parametrize(
    ("kind", "value", "fits"),
    [
        ("string", "a", True),
        ("string", 1, False),
        ("number", 1, True),
        ("number", 1.5, True),
        ("number", True, False),
        ("number", float("nan"), False),
        ("number", float("inf"), False),
        ("boolean", False, True),
        ("boolean", 0, False),
    ],
)
def test_values_match_a_field_type_as_json_has_them(kind: Any, value: Any, fits: bool) -> None:
    assert matches(kind, value) is fits
