"""The comment on a pull request: refusals first, then changes, documents, and the Worker's diff."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cfrag.preview_changes import Change, Changes
from cfrag.preview_embedding import Embedding
from cfrag.preview_worker import WorkerDiff
from infra.catalog import WORKER_GZIP_BYTES

MARK = "<!-- cfrag preview -->"
COMMENT_CHARS = 65_536
"""GitHub refuses longer comments (API reference, issue comments); GitLab takes more."""
DIFF_CHARS = 40_000
_BOLD = ("replaced", "deleted")
_ROWS = 40
_SECRET = re.compile(r"(TOKEN|SECRET|PASSPHRASE|PASSWORD|API_KEY|ACCESS_KEY\w*|CFRAG_KEY)$")


@dataclass(frozen=True)
class StackPreview:
    """What is known of one stack. `changes` is None where only the rendered Worker was looked at."""

    stack: str
    changes: Changes | None
    embedding: Embedding | None
    worker: WorkerDiff | None
    not_rendered: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.not_rendered) or (self.changes is not None and self.changes.failed)

    def to_json(self) -> dict[str, Any]:
        return {
            "stack": self.stack,
            "ok": not self.failed,
            "changes": self.changes.to_json() if self.changes else None,
            "embedding": self.embedding.to_json() if self.embedding else None,
            "worker": self.worker.to_json() if self.worker else None,
            "notRendered": self.not_rendered or None,
        }


def comment(previews: list[StackPreview], base: str | None) -> str:
    """Markdown, no longer than a comment may be, without any secret of this process's environment."""
    room = DIFF_CHARS // max(len(previews), 1)
    # A gate's refusal is what a reviewer has to see, whatever stack it is of.
    ordered = sorted(previews, key=lambda each: not each.failed)
    parts = [MARK, "## cfrag preview", *(part for each in ordered for part in _stack(each, base, room))]
    return without_secrets("\n\n".join(parts) + "\n")[:COMMENT_CHARS]


def _stack(preview: StackPreview, base: str | None, room: int) -> Iterator[str]:
    yield f"### Stack `{preview.stack}`"
    if preview.changes is None:
        yield "Only the rendered Worker: no account and no state were asked."
    else:
        yield from _changes(preview.changes)
    if preview.embedding:
        yield _embedding(preview.embedding, preview.failed)
    if preview.not_rendered:
        yield f"> [!WARNING]\n> {' '.join(preview.not_rendered.split())}"
    if preview.worker:
        yield from _worker(preview.worker, base, room)


def _changes(changes: Changes) -> Iterator[str]:
    for refusal in changes.refusals:
        yield f"> [!CAUTION]\n> **Refused:** {refusal.removeprefix('refused: ')}"
    for error in changes.errors:
        yield f"> [!WARNING]\n> The preview failed: {error}"
    for announcement in changes.announcements:
        yield f"> [!IMPORTANT]\n> {announcement}"
    if changes.resources:
        yield _table(changes.resources)
    elif not changes.failed:
        yield "No resource changes."


def _table(resources: tuple[Change, ...]) -> str:
    lines = ["| | resource | what changes |", "| --- | --- | --- |"]
    for each in resources[:_ROWS]:
        verb = f"**{each.verb}**" if each.verb in _BOLD else each.verb
        name = f"**`{each.name}`**" if each.verb in _BOLD else f"`{each.name}`"
        lines.append(f"| {verb} | {each.kind} {name} | {_properties(each)} |")
    if len(resources) > _ROWS:
        lines.append(f"| | … and {len(resources) - _ROWS} more | |")
    return "\n".join(lines)


def _properties(change: Change) -> str:
    if change.kind == "WorkerVersion" and change.verb == "replaced":
        rest = [f"`{each}`" for each in change.properties]
        return ", ".join(["a new version; the old one stays for a rollback", *rest])
    if change.kind == "WorkersDeployment":
        return "all requests go to the new version"
    return ", ".join(f"`{each}`" for each in change.properties)


def _embedding(found: Embedding, failed: bool) -> str:
    if not found.again:
        if found.rewritten:
            return (
                "**Documents:** none is embedded again; stored vectors are written again, for the changed "
                "metadata indexes, without AI."
            )
        return "**Documents:** none is embedded again."
    verb = "would be" if failed else "will be"
    plan = found.plan
    if plan is None:
        why = f" How many can't be told: {found.unknown}." if found.unknown else ""
        return f"**Documents:** every one {verb} embedded again, by {found.model}.{why}"
    price = "the catalog has no price of this model"
    if plan.cost is not None:
        price = (
            f"about ${plan.cost:.4f} (${plan.new.price_per_million_tokens} per million tokens, "
            f"{plan.new.source}, as of {plan.new.as_of})"
        )
    return (
        f"**Documents:** {plan.documents:,} {verb} embedded again, by {found.model}: "
        f"about {plan.tokens:,} tokens in {plan.calls:,} AI calls, {price}."
    )


def _worker(diff: WorkerDiff, base: str | None, room: int) -> Iterator[str]:
    size = _size(diff)
    if not diff.files and not diff.packages:
        yield f"**Worker:** the same as in `{base}`, {size}."
        return
    yield f"**Worker:** {size}."
    if diff.packages:
        rows = [f"| {name} | {old or 'not there'} | {new or 'removed'} |" for name, old, new in diff.packages]
        yield "\n".join(["| package | before | after |", "| --- | --- | --- |", *rows])
    if diff.files:
        count = len(diff.files)
        files = f"{count} rendered file{'' if count == 1 else 's'}"
        text = diff.text()
        if len(text) > room:
            text = f"{text[:room]}\n… cut here; all of it: cfrag preview --rendered-only --base {base}\n"
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text) or ["``"]))
        yield (
            f"<details>\n<summary>{files} changed against {base}</summary>\n\n"
            f"{fence}diff\n{text}{fence}\n\n</details>"
        )


def _size(diff: WorkerDiff) -> str:
    limit = f"of {WORKER_GZIP_BYTES.value:,} bytes gzipped"
    after = diff.after.gzip_bytes
    if diff.before is None:
        return f"new, {after:,} {limit}"
    change = after - diff.before.gzip_bytes
    return f"{diff.before.gzip_bytes:,} -> {after:,} ({change:+,}) {limit}"


def without_secrets(text: str) -> str:
    """`text` without the values of variables that hold secrets, should a tool have printed one."""
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= 8:
            text = text.replace(value, f"[{name}]")
    return text
