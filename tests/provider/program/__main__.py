"""A Pulumi program that declares what `wanted.json` lists."""

import json
import signal
from pathlib import Path
from typing import Any

import pulumi

from infra import cloudflare, resources

# The engine interrupts the program when it refuses a resource: that is no error of the program's own.
signal.signal(signal.SIGINT, signal.SIG_DFL)

made: dict[str, Any] = {}


def resolved(value: Any) -> Any:
    """Replace `{"$of": [resource, attribute]}` and `{"$secret": text}`."""
    if isinstance(value, dict) and "$of" in value:
        name, attribute = value["$of"]
        return getattr(made[name], attribute)
    if isinstance(value, dict) and "$secret" in value:
        return pulumi.Output.secret(value["$secret"])
    if isinstance(value, dict):
        return {key: resolved(item) for key, item in value.items()}
    return value


for entry in json.loads(Path("wanted.json").read_text()):
    if entry["kind"].startswith("cloudflare."):
        kind = getattr(cloudflare, entry["kind"].removeprefix("cloudflare."))
    else:
        kind = getattr(resources, entry["kind"])
    after = [made[name] for name in entry.get("after", ())]
    provider = made[entry["provider"]] if "provider" in entry else None
    opts = pulumi.ResourceOptions(
        depends_on=after, provider=provider, protect=entry.get("protect"), aliases=entry.get("aliases")
    )
    # By position: some kinds have an argument `name` of their own.
    made[entry["name"]] = kind(entry["name"], **resolved(entry["args"]), opts=opts)
    if "export" in entry:
        pulumi.export(entry["name"], getattr(made[entry["name"]], entry["export"]))
