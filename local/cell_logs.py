"""The logs of Workers: one file each, of what it printed and what the runtime said about it."""

import json
from pathlib import Path

LOG_BYTES = 10_000_000
# Of the process that holds databases only.
NO_WORKER = "databases"


class CellLogs:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def take(self, workers: tuple[str, ...], line: str) -> None:
        """Write one line of a cell's output to the log of its Worker, or of all in the cell."""
        worker, text = _parsed(line)
        for name in [worker] if worker in workers else workers or (NO_WORKER,):
            self._append(self._folder / f"{name}.log", text)

    def _append(self, path: Path, line: str) -> None:
        """Past `LOG_BYTES` the file becomes `<name>.log.1` and a new one begins."""
        if path.exists() and path.stat().st_size > LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        with path.open("a") as file:
            file.write(line + "\n")


def _parsed(line: str) -> tuple[str | None, str]:
    """The Worker and the text of a line of the runtime host, `{worker, level, message}`."""
    try:
        entry = json.loads(line)
        message = str(entry["message"])
    except (ValueError, KeyError, TypeError):
        return None, line
    # What a Worker logs as JSON stays JSON.
    text = message if message.startswith("{") else f"{entry.get('level', 'info')}: {message}"
    return entry.get("worker"), text
