"""Indexes, vectors and matches as the API shows them."""

import json
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np

from local.vectorize.filters import indexed_value
from local.vectorize.query import Options
from local.vectorize.store import IndexRow, MetadataIndexRow, StoredVector

JsonObject = dict[str, Any]


def floats(values: bytes) -> list[float]:
    return cast(list[float], np.frombuffer(values, np.float32).tolist())


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def index_object(index: IndexRow) -> JsonObject:
    return {
        "name": index.name,
        "description": index.description or "",
        "config": {"dimensions": index.dimensions, "metric": index.metric},
        "created_on": index.created_on,
        "modified_on": index.created_on,
    }


def vector_object(vector: StoredVector, values: bool) -> JsonObject:
    found: JsonObject = {"id": vector.id}
    if values:
        found["values"] = floats(vector.values)
    if vector.namespace is not None:
        found["namespace"] = vector.namespace
    if vector.metadata is not None:
        found["metadata"] = json.loads(vector.metadata)
    return found


def match_object(
    vector: StoredVector, score: float, wanted: Options, indexed: list[MetadataIndexRow]
) -> JsonObject:
    match = vector_object(vector, wanted.return_values)
    match["score"] = score
    metadata = match.pop("metadata", None)
    if metadata is not None and wanted.return_metadata != "none":
        everything = wanted.return_metadata == "all"
        match["metadata"] = metadata if everything else _indexed(vector.seq, metadata, indexed)
    return match


def _indexed(seq: int, metadata: JsonObject, indexed: list[MetadataIndexRow]) -> JsonObject:
    """What the metadata indexes hold of `metadata`, nested as it was."""
    held: JsonObject = {}
    for row in indexed:
        value = indexed_value(metadata, row.property, row.type) if seq > row.seq else None
        if isinstance(value, str | float | bool):
            *parents, leaf = row.property.split(".")
            place = held
            for parent in parents:
                place = place.setdefault(parent, {})
            place[leaf] = int(value) if isinstance(value, float) and value.is_integer() else value
    return held
