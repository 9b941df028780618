"""The JSON Schema of `tenants.yaml`, for editors: `python -m cfrag.tenants.schema` writes it."""

import json
from typing import Any

from cfrag.pulumi_env import ROOT
from cfrag.tenants.file import TenantsFile
from infra.catalog import EMBEDDING_MODELS, VECTORIZE_DIMENSIONS
from infra.config import RagConfig

PATH = ROOT / "docs/schemas/tenants.schema.json"
_MODELS = sorted(name for name, model in EMBEDDING_MODELS.items() if model.dims <= VECTORIZE_DIMENSIONS.value)

Json = dict[str, Any]


def schema() -> Json:
    """Every key of the file; a `config` may leave out any key of a stack's, or take one away by null."""
    whole = TenantsFile.model_json_schema(by_alias=True)
    config = RagConfig.model_json_schema(by_alias=True)
    parts: Json = config.pop("$defs") | {"RagConfig": config}
    for part in parts.values():
        _make_partial(part)
    definitions = whole["$defs"] | parts
    definitions["TenantEntry"]["properties"]["config"] |= {"$ref": "#/$defs/RagConfig"}
    whole["properties"]["tenants"]["additionalProperties"] = {
        "anyOf": [{"$ref": "#/$defs/TenantEntry"}, {"type": "null"}]
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **whole,
        "title": "cfrag tenants",
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def _make_partial(part: Json) -> None:
    part.pop("required", None)
    for name, value in part.get("properties", {}).items():
        if name == "model":
            value["enum"] = _MODELS
        if isinstance(items := value.get("additionalProperties"), dict):
            value["additionalProperties"] = _or_null(items)
        part["properties"][name] = _or_null(value)


def _or_null(value: Json) -> Json:
    return {"anyOf": [value, {"type": "null"}]}


def text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def write() -> None:
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text(text())


if __name__ == "__main__":
    write()
