"""The package's schema, as `pulumi package get-schema` shows it, from the resources' typed inputs."""

from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter

from infra.provider.base import Resource
from infra.provider.values import Values

_ANY = {"$ref": "pulumi.json#/Any"}
_SIMPLE = ("string", "integer", "number", "boolean")
_SETTINGS: Values = {
    "apiToken": {
        "type": "string",
        "secret": True,
        "description": "API token; CLOUDFLARE_API_TOKEN where it is left out.",
        "defaultInfo": {"environment": ["CLOUDFLARE_API_TOKEN"]},
    },
    "accountId": {
        "type": "string",
        "description": "Account to work in; CLOUDFLARE_ACCOUNT_ID where it is left out.",
        "defaultInfo": {"environment": ["CLOUDFLARE_ACCOUNT_ID"]},
    },
    "baseUrl": {
        "type": "string",
        "description": "Address of the API; CLOUDFLARE_BASE_URL, or Cloudflare's own, where it is left out.",
        "defaultInfo": {"environment": ["CLOUDFLARE_BASE_URL"]},
    },
}


def package_schema(package: str, version: str, resources: Iterable[Resource[Any]]) -> Values:
    """The whole package: its settings, its resources with inputs and outputs, and the types in them."""
    types: Values = {}
    described = {resource.token: _resource(package, resource, types) for resource in resources}
    return {
        "name": package,
        "displayName": package,
        "version": version,
        "description": "What a retrieval stack on Cloudflare needs and pulumi-cloudflare does not have.",
        "config": {"variables": _SETTINGS},
        "provider": {
            "description": "Where and as whom the resources are managed.",
            "properties": _SETTINGS,
            "inputProperties": _SETTINGS,
        },
        "types": types,
        "resources": described,
    }


def _resource(package: str, resource: Resource[Any], types: Values) -> Values:
    schema = resource.model.model_json_schema(by_alias=True)
    for name, definition in schema.get("$defs", {}).items():
        types[f"{package}:index:{name}"] = _object(package, definition)
    inputs = _properties(package, schema)
    for name in resource.secrets & inputs.keys():
        inputs[name]["secret"] = True
    for name in resource.replace_on & inputs.keys():
        inputs[name]["willReplaceOnChanges"] = True
    outputs = {name: _output(package, resource.described.get(name, Any)) for name in _computed(resource)}
    required = schema.get("required", [])
    return {
        "description": (type(resource).__doc__ or "").strip(),
        "inputProperties": inputs,
        "requiredInputs": required,
        "properties": {name: _state(item) for name, item in inputs.items()} | outputs,
        "required": sorted({*required, *outputs}),
    }


def _computed(resource: Resource[Any]) -> list[str]:
    """Properties of the state that are no inputs."""
    return sorted({*resource.outputs, *resource.described})


def _output(package: str, kind: Any) -> Values:
    return _type(package, TypeAdapter(kind).json_schema())


def _state(item: Values) -> Values:
    """A property of the state: as the input, without what is about inputs."""
    return {key: value for key, value in item.items() if key != "willReplaceOnChanges"}


def _object(package: str, schema: Values) -> Values:
    return {
        "type": "object",
        "description": schema.get("description", ""),
        "properties": _properties(package, schema),
        "required": schema.get("required", []),
    }


def _properties(package: str, schema: Values) -> Values:
    return {name: _property(package, item) for name, item in schema.get("properties", {}).items()}


def _property(package: str, item: Values) -> Values:
    described = dict(_type(package, item))
    allowed = item.get("enum", [])
    notes = [item.get("description", ""), f"One of: {', '.join(map(str, allowed))}." if allowed else ""]
    if text := " ".join(filter(None, notes)):
        described["description"] = text
    if isinstance(item.get("default"), bool | int | str):
        described["default"] = item["default"]
    return described


def _type(package: str, item: Values) -> Values:
    """A JSON Schema as a type of Pulumi's. What may be null is what may be left out."""
    if "$ref" in item:
        return {"$ref": f"#/types/{package}:index:{item['$ref'].rsplit('/', 1)[-1]}"}
    if "anyOf" in item:
        (one,) = (each for each in item["anyOf"] if each.get("type") != "null")
        return _type(package, one)
    kind = item.get("type")
    if kind in _SIMPLE:
        return {"type": kind}
    if kind == "array":
        return {"type": "array", "items": _type(package, item["items"])}
    if kind == "object":
        values = item.get("additionalProperties")
        return {
            "type": "object",
            "additionalProperties": _type(package, values) if isinstance(values, dict) else _ANY,
        }
    return _ANY
