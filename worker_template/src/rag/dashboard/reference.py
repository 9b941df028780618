"""The API's description as one static page: no script, nothing loaded, readable without a mouse."""

import json
from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: dark; --line: #2c3a47; --dim: #9fb0c0; --accent: #f6a04d; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 4rem; background: #10161c; color: #e7edf3;
  font: 16px/1.55 system-ui, sans-serif; }
h1 { margin: 0 0 .25rem; } h2 { margin: 2.5rem 0 .5rem; border-bottom: 1px solid var(--line); }
p { margin: .35rem 0; } .dim { color: var(--dim); }
details { border: 1px solid var(--line); border-radius: .5rem; margin: .5rem 0; background: #161f28; }
summary { cursor: pointer; padding: .6rem .8rem; overflow-wrap: anywhere; }
summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
details > div { padding: 0 .8rem .8rem; }
.method { display: inline-block; min-width: 4.2rem; font-weight: 700; color: var(--accent); }
code, pre { font: 14px/1.5 ui-monospace, monospace; }
pre { overflow-x: auto; background: #0b1015; padding: .7rem; border-radius: .4rem; }
caption { text-align: left; color: var(--dim); padding-top: .6rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .25rem .6rem .25rem 0;
  vertical-align: top; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
"""

# Only this style sheet may apply; nothing may run or be loaded.
_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()
_NOTHING_ELSE = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; {_NOTHING_ELSE}"


def render(document: dict[str, Any]) -> str:
    """The page for an OpenAPI document."""
    info = document["info"]
    title = escape(info["title"])
    sections = "".join(_section(document, tag) for tag in document.get("tags", []))
    schemas = "".join(_schema(*each) for each in sorted(document["components"]["schemas"].items()))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: API</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><header><h1>{title}</h1><p>{_inline(info['description'])}</p>"
        '<p class="dim">Send <code>Authorization: Bearer …</code>. '
        "Machines read <code>/openapi.json</code></p>"
        f"</header><main>{sections}<section><h2>Objects</h2>{schemas}</section></main></body></html>"
    )


def _section(document: dict[str, Any], tag: dict[str, str]) -> str:
    operations = [
        _operation(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if tag["name"] in operation.get("tags", [])
    ]
    head = (
        f"<section><h2>{escape(tag['name'].capitalize())}</h2><p class=dim>{escape(tag['description'])}</p>"
    )
    return head + "".join(operations) + "</section>"


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    title = f'<span class="method">{method.upper()}</span> <code>{escape(path)}</code>'
    title += f' <span class="dim">{escape(operation["summary"])}</span>'
    parts = [f"<p>{_inline(line)}</p>" for line in operation.get("description", "").split("\n\n") if line]
    if "parameters" in operation:
        parts.append(_table("Parameters", [_parameter(each) for each in operation["parameters"]]))
    if "requestBody" in operation:
        parts.append(f"<p>Body: {_content(operation['requestBody'])}</p>")
    answers = operation["responses"].items()
    rows = [(status, f"{escape(answer['description'])} {_content(answer)}") for status, answer in answers]
    parts.append(_table("Answers", rows))
    return f"<details><summary>{title}</summary><div>{''.join(parts)}</div></details>"


def _parameter(parameter: dict[str, Any]) -> tuple[str, str]:
    return f"{parameter['name']} ({parameter['in']})", escape(parameter.get("description", ""))


def _content(holder: dict[str, Any]) -> str:
    schemas = [each.get("schema", {}) for each in holder.get("content", {}).values()]
    names = [schema["$ref"].rpartition("/")[2] for schema in schemas if "$ref" in schema]
    return " ".join(f"<code>{escape(name)}</code>" for name in names)


def _table(caption: str, rows: list[tuple[str, str]]) -> str:
    body = "".join(
        f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{text}</td></tr>' for name, text in rows
    )
    return f"<table><caption>{caption}</caption>{body}</table>"


def _schema(name: str, schema: dict[str, Any]) -> str:
    shown = escape(json.dumps(schema, indent=2, ensure_ascii=False))
    return f"<details><summary><code>{escape(name)}</code></summary><div><pre>{shown}</pre></div></details>"


def _inline(text: str) -> str:
    """Plain text with `code` marked."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
