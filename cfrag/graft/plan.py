"""What a graft would change in a host, found out before anything is written."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from cfrag.graft import bindings, dependencies, entry, jsonc
from cfrag.graft.host import Host
from infra.bundle import manifest
from infra.bundle.project import ROOT, wrangler_file
from infra.bundle.templates import TEMPLATE, own_modules
from infra.config import RagConfig
from infra.errors import CfragError

AuthChoice = Literal["host", "secret", "keys"]
MANIFEST = "rag-graft.json"
MIGRATIONS = "rag_migrations"

Json = dict[str, Any]


@dataclass(frozen=True)
class Wish:
    """What is asked for: the service of a stack, below a path, with one of three kinds of callers.

    `authorize` is the host's function, as `module:function`, where it says who may call.
    """

    config: RagConfig
    stack: str
    path: str = "/rag"
    auth: AuthChoice = "keys"
    authorize: str | None = None

    def adapted(self) -> RagConfig:
        """The config as a part of another Worker has it: without a page of its own at `/`."""
        mode = "keys" if self.auth == "keys" else "secret"
        # The host has authenticated MCP's callers as well.
        mcp = self.config.mcp.model_copy(
            update={"internal_secret": self.config.mcp.internal_secret or self.auth == "host"}
        )
        auth = self.config.auth.model_copy(update={"mode": mode})
        return self.config.model_copy(
            update={"auth": auth, "mcp": mcp, "dashboard": False, "domain": None, "inherit_secrets": ()}
        )


@dataclass(frozen=True)
class Change:
    """A file before and after; None where it is not there. `own` ones belong to the graft alone."""

    path: str
    before: str | None
    after: str | None
    own: bool


@dataclass
class Plan:
    """Changes to make, files of the graft that were edited in the host, and what is left to a person."""

    host: Host
    changes: list[Change] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    by_hand: list[tuple[str, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    record: str = ""

    def write(self) -> None:
        """Make the changes, and remember what was written."""
        for change in self.changes:
            file = self.host.folder / change.path
            if change.after is None:
                file.unlink(missing_ok=True)
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(change.after)
        (self.host.folder / MANIFEST).write_text(self.record)


def make(host: Host, wish: Wish, overwrite: bool = False) -> Plan:
    """The plan for a host. Raises CfragError for a wish that can't be, or a broken file of the host."""
    if (wish.auth == "host") is (wish.authorize is None):
        raise CfragError("--authorize MODULE:FUNCTION goes with --auth host, and only with it")
    before = remembered(host)
    plan = Plan(host)
    config = wish.adapted()
    modules = [each for each in own_modules(config) if each.name.startswith("rag/")]
    wanted = _wanted_bindings(config, wish)
    merged = _merge_settings(plan, wanted, before)
    files = {f"{host.source}{each.name}": each.content.decode() for each in modules}
    files |= {f"{MIGRATIONS}/{each.name}": each.read_text() for each in (ROOT / "migrations").glob("*.sql")}
    files[f"{host.source}{entry.GLUE}.py"] = _glue(wish, config, merged.names)
    if not before and not overwrite:
        _refuse_strangers(host, files)
    known = _own_files(plan, files, before.get("files", {}), overwrite)
    _host_files(plan, wish)
    asked = {"stack": wish.stack, "path": wish.path, "auth": wish.auth, "authorize": wish.authorize}
    record = {"asked": asked, "names": merged.names, "bindings": merged.written, "files": known}
    plan.record = json.dumps(record, indent=2, sort_keys=True) + "\n"
    return plan


def _refuse_strangers(host: Host, files: Mapping[str, str]) -> None:
    for path, content in files.items():
        if host.read(path) not in (None, content):
            raise CfragError(
                f"{host.folder / path} exists and is not from `cfrag graft`; move it, or write over it with "
                "--overwrite"
            )


def remembered(host: Host) -> Json:
    """What the last graft of this host wrote, and was asked for. Raises CfragError where it is broken."""
    text = host.read(MANIFEST)
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CfragError(
            f"{host.folder / MANIFEST} is no manifest any more; put it back from version control"
        )
    return found


def _wanted_bindings(config: RagConfig, wish: Wish) -> Json:
    """The rendered Worker's own, less the secrets that nobody shows."""
    bundle = manifest.assemble(own_modules(config), [], {}, 0)
    wanted: Json = jsonc.parse(wrangler_file(config, wish.stack, bundle).decode()).plain()
    for database in wanted["d1_databases"]:
        database["migrations_dir"] = MIGRATIONS
    wanted["secrets"] = {"required": [] if wish.auth == "host" else ["INTERNAL_API_SECRET"]}
    return wanted


def _merge_settings(plan: Plan, wanted: Json, before: Json) -> bindings.Merged:
    host = plan.host
    names, written = before.get("names", {}), before.get("bindings", {})
    text = host.read(host.settings) or ""
    if host.settings.endswith(".toml"):
        keys = ("ai", "vectorize", "d1_databases", "queues", "ratelimits", "vars", "secrets")
        needed = {key: wanted[key] for key in keys if key in wanted}
        plan.by_hand.append((host.settings, json.dumps(needed, indent=2)))
        return bindings.Merged(text, dict(names), dict(written))
    merged = bindings.merge(text, wanted, names, written)
    plan.remarks += merged.remarks
    _change(plan, host.settings, text, merged.text)
    return merged


def _change(plan: Plan, path: str, before: str | None, after: str | None, own: bool = False) -> None:
    if before != after:
        plan.changes.append(Change(path, before, after, own))


def _own_files(
    plan: Plan, wanted: Mapping[str, str], known: Mapping[str, str], overwrite: bool
) -> dict[str, str]:
    """Plan the graft's own files; what to remember of them: digests of what was written last."""
    remembered: dict[str, str] = {}
    for path, content in sorted(wanted.items()):
        there, last = plan.host.read(path), known.get(path)
        if there is None or there == content or overwrite or _digest(there) == last:
            _change(plan, path, there, content, own=True)
            remembered[path] = _digest(content)
        else:
            if last != _digest(content):
                plan.edited.append(path)
            remembered[path] = last or ""
    for path in sorted(known.keys() - wanted.keys()):
        there = plan.host.read(path)
        if there is not None and (overwrite or _digest(there) == known[path]):
            _change(plan, path, there, None, own=True)
        elif there is not None:
            plan.edited.append(path)
            remembered[path] = known[path]
    return remembered


def _host_files(plan: Plan, wish: Wish) -> None:
    host = plan.host
    source = host.read(host.main) or ""
    mounted = entry.mount(source, wish.path)
    if mounted is None:
        plan.by_hand.append((host.main, entry.by_hand(wish.path)))
    else:
        _change(plan, host.main, source, mounted)
    wanted = dependencies.requirements((TEMPLATE / "pyproject.toml").read_text())
    project = host.read("pyproject.toml")
    merged = dependencies.merge(project, wanted) if project is not None else None
    if merged is None:
        listed = "\n".join(f'    "{each}",' for each in wanted)
        plan.by_hand.append(("pyproject.toml", f"dependencies = [\n{listed}\n]"))
    else:
        _change(plan, "pyproject.toml", project, merged)


def _glue(wish: Wish, config: RagConfig, names: Mapping[str, str]) -> str:
    lines = ['"""The retrieval service in this Worker: where it is, and who may call it."""', ""]
    lines += ["from rag.graft import Service"]
    arguments = [json.dumps(wish.path), f"queue={json.dumps(config.names(wish.stack).ingest)}"]
    if wish.authorize:
        module, _, function = wish.authorize.partition(":")
        if not (module and function.isidentifier()):
            raise CfragError(f"--authorize {wish.authorize}: write it as module:function")
        lines.insert(2, f"from {module} import {function}")
        arguments.append(f"authorize={function}")
    if names:
        arguments.append(f"bindings={json.dumps(dict(sorted(names.items())))}")
    return "\n".join([*lines, "", f"service = Service({', '.join(arguments)})", ""])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
