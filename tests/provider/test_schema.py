"""The schema that the plugin's executable serves, as the real CLI reads and checks it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cfrag.pulumi_env import ROOT, pulumi_env
from infra.provider.resources import RESOURCES
from infra.provider.schema import package_schema

pytestmark = pytest.mark.xdist_group("schema")

Json = dict[str, Any]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Json:
    """What `pulumi package get-schema` prints; the CLI refuses a schema whose parts don't fit together."""
    home: Path = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        ["pulumi", "package", "get-schema", "./infra/provider/pulumi-resource-cfrag"],
        cwd=ROOT,
        env=pulumi_env(home),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    printed: Json = json.loads(done.stdout)
    return printed


def test_the_cli_takes_every_resource_of_the_provider(schema: Json) -> None:
    assert schema["resources"].keys() == {resource.token for resource in RESOURCES}
    assert all(each["description"] for each in schema["resources"].values())


def test_no_input_and_no_output_is_of_just_any_type(schema: Json) -> None:
    """But a binding's own values, which differ from kind to kind."""
    untyped = [
        f"{token}.{name}"
        for token, resource in schema["resources"].items()
        for name, item in (resource["inputProperties"] | resource["properties"]).items()
        if item.get("$ref") == "pulumi.json#/Any"
    ]
    assert untyped == []


def test_inputs_have_their_types_and_what_is_required_is_said(schema: Json) -> None:
    space = schema["resources"]["cfrag:index:EmbeddingSpace"]
    assert space["inputProperties"]["dims"]["type"] == "integer"
    assert space["inputProperties"]["replacing"]["$ref"] == "#/types/cfrag:index:Replacing"
    assert "generation" in space["requiredInputs"]
    assert "pooling" not in space["requiredInputs"]
    assert space["properties"]["spaces"] == {"type": "array", "items": {"type": "string"}}
    assert schema["types"]["cfrag:index:Replacing"]["properties"]["dims"]["type"] == "integer"


def test_what_is_computed_is_an_output_and_no_input(schema: Json) -> None:
    version = schema["resources"]["cfrag:index:WorkerVersion"]
    assert version["properties"]["versionId"]["type"] == "string"
    assert "versionId" in version["required"]
    assert "versionId" not in version["inputProperties"]


def test_the_token_is_a_secret_of_the_providers_settings(schema: Json) -> None:
    assert schema["provider"]["inputProperties"]["apiToken"]["secret"] is True
    assert schema["config"]["variables"].keys() == {"apiToken", "accountId", "baseUrl"}


def test_an_inputs_default_and_allowed_values_are_shown() -> None:
    index = package_schema("cfrag", "1.0.0", RESOURCES)["resources"]["cfrag:index:VectorizeIndex"]
    assert index["inputProperties"]["deletion"]["default"] == "protected"
    assert "when-replaced" in index["inputProperties"]["deletion"]["description"]
