"""What the Pulumi engine tells while it works on one stack."""

import re
from collections.abc import Callable

from pulumi.automation.events import EngineEvent

_COLOUR = re.compile(r"<\{%.*?%\}>|\x1b\[[0-9;]*m")
# Said once more at the end of every failed update, and nothing more.
_EMPTY_WORDS = ("update failed", "preview failed", "destroy failed")
# A bug of the program: its traceback names lines that a person who deploys can do nothing about.
_TRACEBACK = re.compile(r" Traceback \(most recent call last\):.*")
_PREFIX = re.compile(r"^(an unhandled error occurred: |python inline source runtime error: )+")
_LOGICAL_NAME = re.compile(r"::([^:]+)$")

Progress = Callable[[str], None]


class Listener:
    """Gathers the errors, and tells `progress` the resource that is worked on."""

    def __init__(self, progress: Progress) -> None:
        self.errors: list[str] = []
        self.changes: dict[str, int] = {}
        self._progress = progress
        self._done = 0

    def __call__(self, event: EngineEvent) -> None:
        if (said := event.diagnostic_event) and said.severity == "error":
            self._take_error(said.message, said.urn)
        elif started := event.resource_pre_event:
            if (operation := str(started.metadata.op.value)) not in ("same", "read"):
                self._progress(f"{self._done} done, {operation} {name_of(started.metadata.urn)}")
        elif event.res_outputs_event:
            self._done += 1
        elif summary := event.summary_event:
            self.changes = {str(operation): count for operation, count in summary.resource_changes.items()}

    def _take_error(self, message: str, urn: str | None) -> None:
        text = " ".join(_COLOUR.sub("", message).split())
        text = _PREFIX.sub("", _TRACEBACK.sub("", text))
        if not text or text in _EMPTY_WORDS:
            return
        line = f"{name_of(urn)}: {text}" if urn and name_of(urn) not in text else text
        if line not in self.errors:
            self.errors.append(line)


def name_of(urn: str) -> str:
    """The logical name at the end of a resource's URN."""
    found = _LOGICAL_NAME.search(urn)
    return found[1] if found else urn
