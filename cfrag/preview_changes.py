"""What `pulumi preview` would do to a stack, from the CLI's own JSON."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pulumi.runtime.rpc import UNKNOWN

from cfrag.pulumi_run import Done, PulumiStack, last_words

Verb = Literal["created", "updated", "replaced", "deleted"]
# A replacement is three steps of one resource.
_VERBS: dict[str, Verb] = {
    "create": "created",
    "import": "created",
    "update": "updated",
    "replace": "replaced",
    "create-replacement": "replaced",
    "delete-replaced": "replaced",
    "delete": "deleted",
}
ORDER: tuple[Verb, ...] = ("deleted", "replaced", "updated", "created")
# Their inputs are settings of the embedding space, never secrets: a comment may show them.
_SHOWN = frozenset({"EmbeddingSpace", "SpaceActivation"})
_SAID_ELSEWHERE = ("manifest", "bundle", "indexed")
_PROBLEM = re.compile(r"^error: \S+ resource '[^']*': property \S+ value \{.*\} has a problem: ", re.DOTALL)
_CAUSED = "Resource monitor has terminated"


@dataclass(frozen=True)
class Change:
    """One resource that would change; `properties` are paths, with values where those are harmless."""

    verb: Verb
    kind: str
    name: str
    properties: tuple[str, ...]


@dataclass(frozen=True)
class Changes:
    """What a preview says. With refusals or errors it ended early, and the rest is incomplete."""

    refusals: tuple[str, ...]
    errors: tuple[str, ...]
    announcements: tuple[str, ...]
    resources: tuple[Change, ...]

    @property
    def failed(self) -> bool:
        return bool(self.refusals or self.errors)

    def to_json(self) -> dict[str, Any]:
        return {
            "refusals": list(self.refusals),
            "errors": list(self.errors),
            "announcements": list(self.announcements),
            "resources": [asdict(each) for each in self.resources],
        }


def preview(stack: PulumiStack, *, refresh: bool = False) -> Changes:
    """Run the preview; one that fails is an answer as well."""
    done = stack.run("preview", "--json", *(["--refresh"] if refresh else []))
    try:
        said = json.loads(done.stdout)
    except ValueError:
        return Changes((), (last_words(done),), (), ())
    return read(said, done)


def read(said: Mapping[str, Any], done: Done | None = None) -> Changes:
    """The changes in a preview's JSON."""
    diagnostics = said.get("diagnostics") or []
    errors = [_message(each) for each in diagnostics if each["severity"] == "error"]
    errors = [each for each in errors if _CAUSED not in each]
    refusals = [each for each in errors if each.startswith("refused: ")]
    others = [each for each in errors if each not in refusals]
    if done is not None and done.returncode and not errors:
        others.append(last_words(done)[:500])
    announced = [_message(each) for each in diagnostics if each["severity"] == "warning" and each.get("urn")]
    return Changes(tuple(refusals), tuple(others), tuple(announced), _resources(said.get("steps") or []))


def _message(diagnostic: Mapping[str, Any]) -> str:
    text = _PROBLEM.sub("", str(diagnostic["message"]).strip())
    return " ".join(text.removeprefix("error: ").removeprefix("warning: ").split())


def _resources(steps: list[dict[str, Any]]) -> tuple[Change, ...]:
    found: dict[str, Change] = {}
    for step in steps:
        verb = _VERBS.get(step["op"])
        if verb is None or (step["urn"] in found and found[step["urn"]].properties):
            continue
        *_, kind, name = step["urn"].split("::")
        kind = kind.split("$")[-1].split(":")[-1]
        if not kind.startswith("pulumi"):
            found[step["urn"]] = Change(verb, kind, name, _properties(kind, step))
    return tuple(sorted(found.values(), key=lambda each: (ORDER.index(each.verb), each.kind, each.name)))


def _properties(kind: str, step: Mapping[str, Any]) -> tuple[str, ...]:
    """What differs, without what other lines or the Worker's diff say better: digests, metadata indexes."""
    paths = [path for path in step.get("detailedDiff") or {} if not path.startswith(_SAID_ELSEWHERE)]
    old, new = ((step.get(key) or {}).get("inputs") or {} for key in ("oldState", "newState"))
    if kind not in _SHOWN:
        others = ((step.get("oldState") or {}).get("outputs") or {}).get("serving")
        named = {path.partition(".text")[0] for path in paths}
        return tuple(sorted(f"serving {others} -> this one" if each == "serving" else each for each in named))
    return tuple(f"{path} {_shown(old.get(path))} -> {_shown(new.get(path))}" for path in sorted(paths))


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if value == UNKNOWN:
        return "not known yet"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)
