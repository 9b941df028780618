"""The schema that editors use: as the code is, and no stricter than the code."""

import json
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from cfrag.pulumi_env import ROOT
from cfrag.tenants import schema
from cfrag.tenants.file import load

EXAMPLE = ROOT / "examples/tenants.yaml"


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    written = json.loads(schema.PATH.read_text())
    Draft202012Validator.check_schema(written)
    return Draft202012Validator(written)


def test_the_committed_schema_is_the_one_that_the_models_give() -> None:
    assert schema.PATH.read_text() == schema.text(), "run: python -m cfrag.tenants.schema"


def test_the_example_is_valid_for_the_editor_and_for_the_command(validator: Draft202012Validator) -> None:
    assert list(validator.iter_errors(yaml.safe_load(EXAMPLE.read_text()))) == []
    assert [tenant.name for tenant in load(EXAMPLE).all] == ["acme", "globex", "initech"]


def test_the_example_names_its_schema_by_a_path_that_exists() -> None:
    first = EXAMPLE.read_text().splitlines()[0]
    relative = first.removeprefix("# yaml-language-server: $schema=")
    assert (EXAMPLE.parent / relative).resolve() == schema.PATH


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"serch": {}}, ["tenants", "acme", "config"]),
        ({"search": {"defaultTopK": "five"}}, ["tenants", "acme", "config", "search", "defaultTopK"]),
        ({"embedding": {"model": "bge"}}, ["tenants", "acme", "config", "embedding", "model"]),
        ({"metadata": {"x": {"type": "text"}}}, ["tenants", "acme", "config", "metadata", "x", "type"]),
    ],
)
def test_an_editor_shows_a_fault_where_it_is(
    validator: Draft202012Validator, config: dict[str, Any], path: list[str]
) -> None:
    (found,) = validator.iter_errors({"tenants": {"acme": {"config": config}}})
    deepest = max([found, *_below(found)], key=lambda each: len(each.absolute_path))
    assert list(deepest.absolute_path) == path


def _below(error: Any) -> list[Any]:
    return [each for inner in error.context or () for each in (inner, *_below(inner))]
