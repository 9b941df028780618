"""JSON with comments, edited in place: what an edit doesn't concern keeps its bytes."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from infra.errors import CfragError

_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_DECODER = json.JSONDecoder()
_INLINE_CHARS = 90


@dataclass
class Node:
    """A value in a text: where it is and, for a container, what is in it by key or position."""

    start: int
    end: int
    scalar: Any = None
    closing: str = ""
    children: dict[str, "Node"] = field(default_factory=dict)
    lead: int = 0
    """Where its member begins: at the key, or at the value in an array."""
    trailing_comma: bool = False

    def plain(self) -> Any:
        """As `json.loads` would give it."""
        if self.closing == "}":
            return {key: child.plain() for key, child in self.children.items()}
        if self.closing == "]":
            return [child.plain() for child in self.children.values()]
        return self.scalar

    def at(self, *path: str) -> "Node | None":
        """What is below a path of keys."""
        node: Node | None = self
        for key in path:
            node = node.children.get(key) if node else None
        return node


def parse(text: str) -> Node:
    """The value of a whole text. Raises CfragError with the line at fault."""
    node = _value(text, _skip(text, 0))
    if (end := _skip(text, node.end)) != len(text):
        raise _fault(text, end, "something follows after the value")
    return node


def insert(text: str, path: tuple[str, ...], value: Any, key: str | None = None) -> str:
    """The text with a value added to the end of the object (under `key`) or array at `path`."""
    node = parse(text).at(*path)
    if node is None or not node.closing:
        raise CfragError(f"{'.'.join(path)} is no object or array")
    named = f"{json.dumps(key)}: " if key is not None else ""
    if not node.children:
        indent = _indent(text, node.start)
        inner = indent + _unit(text)
        piece = f"\n{inner}{named}{_dump(value, inner, _unit(text))}\n{indent}"
        kept = text[node.start + 1 : node.end - 1].rstrip()
        return text[: node.start + 1] + kept + piece + text[node.end - 1 :]
    last = list(node.children.values())[-1]
    comma = "" if node.trailing_comma else ","
    if "\n" not in text[node.start : node.end]:
        inline = f"{comma} {named}{_dump(value, '', '')}"
        return text[: last.end] + inline + text[last.end :]
    inner = _indent(text, last.lead)
    tail = len(text[: node.end - 1].rstrip())
    piece = f"\n{inner}{named}{_dump(value, inner, _unit(text))}"
    return text[: last.end] + comma + text[last.end : tail] + piece + text[tail:]


def replace(text: str, path: tuple[str, ...], value: Any) -> str:
    """The text with another value at `path`."""
    node = parse(text).at(*path)
    if node is None:
        raise CfragError(f"{'.'.join(path)} is not there")
    indent = _indent(text, node.lead)
    return text[: node.start] + _dump(value, indent, _unit(text)) + text[node.end :]


def _dump(value: Any, indent: str, unit: str) -> str:
    """A value as text; what is small goes on one line."""
    short = json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict) and value:
        short = "{ " + short[1:-1] + " }"
    flat = not isinstance(value, dict) or not any(isinstance(each, dict | list) for each in value.values())
    nested = isinstance(value, list) and any(isinstance(each, dict) for each in value)
    if not unit or (len(short) <= _INLINE_CHARS and flat and not nested):
        return short
    inner = indent + unit
    if isinstance(value, list):
        lines = [_dump(each, inner, unit) for each in value]
        return "[\n" + ",\n".join(inner + line for line in lines) + f"\n{indent}]"
    members = [f"{inner}{json.dumps(key)}: {_dump(each, inner, unit)}" for key, each in value.items()]
    return "{\n" + ",\n".join(members) + f"\n{indent}}}"


def _indent(text: str, position: int) -> str:
    """The white space in front of the line on which something is."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip())]


def _unit(text: str) -> str:
    """What the text indents by."""
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return found[1] if found else "  "


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _value(text: str, start: int) -> Node:
    opening = text[start : start + 1]
    if opening in ("{", "["):
        node = Node(start, start, closing="}" if opening == "{" else "]")
        for name, child in _members(text, node):
            node.children[name] = child
        return node
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise _fault(text, start, error.msg) from None
    return Node(start, end, value)


def _members(text: str, node: Node) -> Iterator[tuple[str, Node]]:
    position, count = _skip(text, node.start + 1), 0
    while text[position : position + 1] != node.closing:
        node.trailing_comma = False
        lead, name = position, str(count)
        if node.closing == "}":
            key = _value(text, position)
            position = _skip(text, key.end)
            if not isinstance(key.scalar, str) or text[position : position + 1] != ":":
                raise _fault(text, lead, 'a "key": is expected')
            name, position = key.scalar, _skip(text, position + 1)
        child = _value(text, position)
        child.lead, count = lead, count + 1
        yield name, child
        position = _skip(text, child.end)
        if text[position : position + 1] == ",":
            node.trailing_comma = True
            position = _skip(text, position + 1)
        elif text[position : position + 1] != node.closing:
            raise _fault(text, position, f'"," or "{node.closing}" is expected')
    node.end = position + 1


def _fault(text: str, position: int, what: str) -> CfragError:
    return CfragError(f"line {text.count(chr(10), 0, position) + 1}: {what}")
