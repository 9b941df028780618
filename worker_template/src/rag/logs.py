"""Structured logs: one JSON object per line, never with document text, questions or secrets."""

import json
import sys
from contextvars import ContextVar
from typing import Any, Literal

Level = Literal["info", "warn", "error"]

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)


def log(level: Level, message: str, **fields: Any) -> None:
    """Write one line; `fields` are numbers, states and ids, named in camelCase."""
    line: dict[str, Any] = {"level": level, "message": message}
    if (current := request_id.get()) is not None:
        line["requestId"] = current
    stream = sys.stderr if level == "error" else sys.stdout
    print(json.dumps({**line, **fields}, default=str), file=stream)


def log_exception(message: str, error: BaseException, **fields: Any) -> None:
    """Where an unexpected error came from. Its own text stays out: it may quote what was processed."""
    frames = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        frames.append(f"{code.co_filename.rpartition('/')[2]}:{traceback.tb_lineno} {code.co_name}")
        traceback = traceback.tb_next
    log("error", message, error=type(error).__name__, at=frames[-8:], **fields)
