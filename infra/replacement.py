"""The spaces of a replacement as the Worker writes them into D1 `meta`, and how complete each is."""

import json
from collections.abc import Mapping
from typing import NamedTuple

_COLUMNS = {"main": ("content_hash", "embed_model"), "next": ("next_hash", "next_model")}


class SpaceInfo(NamedTuple):
    generation: int
    model: str
    dims: int
    metric: str
    side: str
    mark: str
    began: int


class Spaces(NamedTuple):
    serving: SpaceInfo
    other: SpaceInfo | None

    @classmethod
    def of(cls, meta: Mapping[str, str]) -> "Spaces | None":
        found = json.loads(meta.get("space") or "null")
        if not found:
            return None
        return cls(_info(found), _info(found["other"]) if found.get("other") else None)

    def find(self, generation: int) -> SpaceInfo | None:
        return next((each for each in self if each and each.generation == generation), None)


def _info(found: Mapping[str, object]) -> SpaceInfo:
    return SpaceInfo(
        int(str(found["generation"])),
        str(found["model"]),
        int(str(found["dims"])),
        str(found.get("metric", "cosine")),
        str(found.get("side", "main")),
        str(found.get("mark", found["fingerprint"])),
        int(str(found.get("began", 0))),
    )


def progress_sql(side: str) -> str:
    hashed, model = _COLUMNS[side]
    failed = f"substr({model}, 1, 1) = '!'"
    missing = f"{hashed} IS NULL OR pending_at IS NOT NULL OR {failed}"
    return (
        f"SELECT COUNT(*) AS total, SUM(CASE WHEN {missing} THEN 1 ELSE 0 END) AS missing, "
        f"SUM(CASE WHEN {failed} THEN 1 ELSE 0 END) AS failed FROM documents WHERE deleted_at IS NULL"
    )


def failed_sql(side: str) -> str:
    _, model = _COLUMNS[side]
    live = f"deleted_at IS NULL AND substr({model}, 1, 1) = '!'"
    return f"SELECT id FROM documents WHERE {live} ORDER BY id LIMIT 1000"
