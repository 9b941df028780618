"""`docs/configuration.md`, from the config's own types: `python -m tools.config_reference` writes it.

It writes the schema of `tenants.yaml` too, which holds the same types.
"""

import inspect
import json
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from cfrag.tenants import schema as tenants_schema
from infra import catalog
from infra.catalog import EMBEDDING_MODELS, VECTORIZE_DIMENSIONS, Limit
from infra.config import CONFIG_KEY, MANAGED_BINDINGS, RESERVED_FIELDS, RagConfig
from infra.settings import SECRET_BYTES

PATH = Path(__file__).resolve().parents[1] / "docs/configuration.md"
COMMAND = "python -m tools.config_reference"

_INTRO = f"""\
<!-- Written by `{COMMAND}` from infra/{{config,sections,settings,catalog}}.py. -->
# Configuration

A stack is one object under `{CONFIG_KEY}` in its `Pulumi.<stack>.yaml`, and a few settings beside it \
that are secret or belong to an account. Only `name` is required:

```yaml
config:
  {CONFIG_KEY}:
    name: team-docs
    metadata:
      chapter: {{type: string, enum: [intro, reference], description: Part of the manual}}
      words: {{type: number}}
```

Unknown keys and values over a limit of the platform are refused by `pulumi preview`, each with its path, \
before anything is called. Keys are written in camelCase.
"""

_SETTINGS = f"""\
## Account and secrets

| key | secret | what it is |
| --- | --- | --- |
| `{CONFIG_KEY}` | no | the object described below |
| `cf-rag:accountId` | no | the Cloudflare account |
| `cloudflare:apiToken` | yes | the API token that Pulumi works with |
| `cf-rag:internalApiSecret` | yes | has every right on the service; {SECRET_BYTES} random bytes or more. \
Not needed where `auth.mode` is `service` |
| `cf-rag:internalApiSecretPrevious` | yes | the one before, taken as well while a rotation is under way |
| `cf-rag:url` | no | the service's public address, where it is neither `workers.dev` nor `domain` |

```console
$ pulumi config set cf-rag:accountId 0123456789abcdef0123456789abcdef
$ pulumi config set --secret cloudflare:apiToken
$ pulumi config set --secret cf-rag:internalApiSecret "$(openssl rand -hex 32)"
```
"""

_NAMES = f"""\
## Names that are taken

A metadata field can't be called {", ".join(f"`{name}`" for name in sorted(RESERVED_FIELDS))} or `tags_1`, \
`tags_2` and so on: vectors carry these already. `inheritSecrets` can't name a binding of the stack's own: \
{", ".join(f"`{name}`" for name in sorted(MANAGED_BINDINGS))}.

## Metadata indexes

An index has at most {catalog.VECTORIZE_METADATA_INDEXES.value} metadata indexes. One goes to each of \
`tags.maxPerDocument`, one to `active`, one to each filterable field. More are refused; \
`filterable: false` keeps a field out of it.
"""


def text() -> str:
    """The whole page."""
    parts = [_INTRO, _SETTINGS, *_sections(RagConfig, ""), _NAMES, _models(), _limits()]
    return "\n".join(parts)


def _sections(model: type[BaseModel], path: str) -> Iterator[str]:
    """A table for a part of the config, then those of the parts below it."""
    fields = [(field.alias or name, field) for name, field in model.model_fields.items()]
    heading = f"## `{path}`" if path else f"## The object under `{CONFIG_KEY}`"
    rows = [_row(name, field, path) for name, field in fields]
    table = ["| key | type | default | |", "| --- | --- | --- | --- |", *rows]
    yield "\n".join([heading, "", f"{inspect.getdoc(model)}", "", *table, ""])
    for name, field in fields:
        for inner, suffix in _parts(field.annotation):
            yield from _sections(inner, f"{path}.{name}{suffix}".lstrip("."))


def _row(name: str, field: FieldInfo, path: str) -> str:
    inner = list(_parts(field.annotation))
    about = field.description or (inspect.getdoc(inner[0][0]) or "").split("\n\n")[0]
    if inner:
        where = f"{path}.{name}{inner[0][1]}".lstrip(".")
        about = f"{about} See [`{where}`](#{_anchor(where)})."
    cells = [f"`{name}`", _kind(field.annotation), _default(field), about]
    return f"| {' | '.join(' '.join(cell.split()).replace('|', '&#124;') for cell in cells)} |"


def _anchor(path: str) -> str:
    """The fragment that GitHub makes of the heading."""
    return "".join(each for each in path.lower() if each.isalnum() or each in "-_")


def _parts(annotation: Any) -> Iterator[tuple[type[BaseModel], str]]:
    """Parts of the config that a type holds, with what their path goes on with."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, ""
    elif get_origin(annotation) is dict:
        yield from ((inner, ".<field>") for inner, _ in _parts(get_args(annotation)[1]))
    else:
        for each in get_args(annotation):
            yield from _parts(each)


def _kind(annotation: Any) -> str:
    """A type as people call it."""
    simple = {str: "string", bool: "true or false", int: "whole number", float: "number", type(None): ""}
    if annotation in simple:
        return simple[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(filter(None, map(_kind, arguments))))
    if origin is tuple:
        return f"list of: {_kind(arguments[0])}"
    if origin is dict:
        return f"mapping to: {_kind(arguments[1])}"
    return "mapping"


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    if field.default is None or field.default == () or isinstance(field.default, BaseModel | dict):
        return ""
    return f"`{json.dumps(field.default)}`" if not isinstance(field.default, str) else f"`{field.default}`"


def _models() -> str:
    rows = [
        f"| `{model.name}` | {model.dims} | {model.max_input_tokens:,} | {model.max_batch} "
        f"| {_price(model.price_per_million_tokens)} | <https://{model.source}> | {model.as_of} |"
        for model in EMBEDDING_MODELS.values()
        if model.dims <= VECTORIZE_DIMENSIONS.value
    ]
    head = [
        "## Embedding models",
        "",
        "| model | dimensions | tokens per text | texts per request | $ per 1M tokens | source | as of |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*head, *rows, ""])


def _price(dollars: float | None) -> str:
    return "" if dollars is None else f"{dollars:.3g}"


def _limits() -> str:
    limits = {name: value for name, value in vars(catalog).items() if isinstance(value, Limit)}
    head = [
        "## Limits of the platform",
        "",
        "Refused before they are hit, by the config, the Worker or the Cloudflare on this machine.",
        "",
        "| limit | at most | source | as of |",
        "| --- | --- | --- | --- |",
    ]
    rows = [
        f"| `{name}` | {limit.value:,} {limit.unit} | {_source(limit)} | {limit.as_of} |"
        for name, limit in limits.items()
    ]
    return "\n".join([*head, *rows, ""])


def _source(limit: Limit) -> str:
    return f"<https://{limit.source}>" if "/" in limit.source else limit.source


if __name__ == "__main__":
    PATH.write_text(text())
    tenants_schema.write()
