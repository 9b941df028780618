"""The service's bindings in a host's `wrangler.jsonc`: added where they are missing, the rest left alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cfrag.graft import jsonc

PREFIX = "RAG_"
_FIRST_PYTHON_314 = "2026-09-08"

Json = dict[str, Any]


class _List(NamedTuple):
    """A list of bindings: where it is, what names an entry, and what the entry leads to."""

    path: tuple[str, ...]
    name: str
    target: str

    def key(self, name: str) -> str:
        return f"{'.'.join(self.path)}:{name}"


_LISTS = (
    _List(("vectorize",), "binding", "index_name"),
    _List(("d1_databases",), "binding", "database_name"),
    _List(("queues", "producers"), "binding", "queue"),
    _List(("queues", "consumers"), "queue", "queue"),
    _List(("ratelimits",), "name", "namespace_id"),
)


@dataclass
class Merged:
    """The file with the bindings in it, the host's names of those that are called otherwise, and remarks.

    `written` is what came from here; given to the next merge, it tells own entries from the host's.
    """

    text: str
    names: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def merge(text: str, wanted: Json, names: Mapping[str, str], written: Mapping[str, str]) -> Merged:
    """Put a rendered `wrangler.jsonc`'s bindings into a host's. Raises CfragError where that is no JSONC."""
    merged = Merged(text, dict(names))
    _merge_ai(merged, wanted["ai"])
    for each in _LISTS:
        for entry in _entries(wanted, each.path):
            _merge_entry(merged, each, entry, written)
    for name, value in wanted["vars"].items():
        _merge_variable(merged, name, value, written)
    _merge_secrets(merged, wanted["secrets"]["required"])
    merged.remarks += _about_host(jsonc.parse(merged.text).plain())
    return merged


def _entries(values: Any, path: Iterable[str]) -> list[Any]:
    for key in path:
        values = values.get(key, {}) if isinstance(values, dict) else {}
    return list(values or [])


def _merge_ai(merged: Merged, wanted: Json) -> None:
    node = jsonc.parse(merged.text).at("ai", "binding")
    if node is None:
        merged.text = jsonc.insert(merged.text, (), wanted, "ai")
    elif node.scalar != wanted["binding"]:
        merged.names[wanted["binding"]] = node.scalar


def _merge_entry(merged: Merged, kind: _List, entry: Json, written: Mapping[str, str]) -> None:
    usual: str = entry[kind.name]
    name = merged.names.get(usual, usual)
    host = _entries(jsonc.parse(merged.text).plain(), kind.path)
    found = {each.get(kind.name): position for position, each in enumerate(host)}
    target = entry[kind.target]
    if name in found:
        there = host[found[name]].get(kind.target)
        if there == target:
            pass
        elif there == written.get(kind.key(name)):
            at = (*kind.path, str(found[name]), kind.target)
            merged.text = jsonc.replace(merged.text, at, target)
        else:
            # The host's own: ours gets another name.
            merged.names[usual] = PREFIX + name
            _merge_entry(merged, kind, entry, written)
            return
    else:
        _ensure(merged, kind.path)
        merged.text = jsonc.insert(merged.text, kind.path, {**entry, kind.name: name})
    merged.written[kind.key(name)] = target


def _ensure(merged: Merged, path: tuple[str, ...]) -> None:
    """The list at `path`, and the object around it, made where they are missing."""
    for length in range(1, len(path) + 1):
        *outer, key = path[:length]
        if jsonc.parse(merged.text).at(*path[:length]) is None:
            empty: Any = [] if length == len(path) else {}
            merged.text = jsonc.insert(merged.text, tuple(outer), empty, key)


def _merge_variable(merged: Merged, variable: str, value: str, written: Mapping[str, str]) -> None:
    name = merged.names.get(variable, variable)
    if jsonc.parse(merged.text).at("vars") is None:
        merged.text = jsonc.insert(merged.text, (), {}, "vars")
    node = jsonc.parse(merged.text).at("vars", name)
    key = f"vars:{name}"
    if node is None:
        merged.text = jsonc.insert(merged.text, ("vars",), value, name)
    elif node.scalar == value:
        pass
    elif node.scalar == written.get(key):
        merged.text = jsonc.replace(merged.text, ("vars", name), value)
    else:
        merged.names[variable] = PREFIX + name
        _merge_variable(merged, variable, value, written)
        return
    merged.written[key] = value


def _merge_secrets(merged: Merged, required: list[str]) -> None:
    for secret in required:
        _ensure(merged, ("secrets", "required"))
        if secret not in _entries(jsonc.parse(merged.text).plain(), ("secrets", "required")):
            merged.text = jsonc.insert(merged.text, ("secrets", "required"), secret)


def _about_host(host: Json) -> list[str]:
    """What the host's own settings need, and are not changed for."""
    remarks = []
    if "python_workers" not in host.get("compatibility_flags", []):
        remarks.append('compatibility_flags has no "python_workers": this is no Python Worker yet')
    if (date := host.get("compatibility_date", "")) < _FIRST_PYTHON_314:
        remarks.append(
            f'compatibility_date is "{date}"; the packages are for Python 3.14: {_FIRST_PYTHON_314} or later'
        )
    if environments := sorted(host.get("env", {})):
        remarks.append(
            f"bindings and vars are not inherited: repeat them under env.{', env.'.join(environments)}"
        )
    return remarks
