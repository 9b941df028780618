"""Vectors on their way in: from JSON to checked rows."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from infra import catalog
from local import limits

FloatArray = NDArray[np.float32]
WriteOp = Literal["insert", "upsert"]


class VectorRow(NamedTuple):
    """One vector as it is stored: float32 bytes, metadata as compact JSON."""

    id: str
    namespace: str | None
    metadata: str | None
    values: bytes


def rows(vectors: Sequence[Any], dimensions: int, op: WriteOp) -> list[VectorRow]:
    """Check and convert vectors. Raises ApiError, and then none of them is taken."""
    return [_row(vector, dimensions, op) for vector in vectors]


def parse_ndjson(payload: bytes, op: WriteOp, discard: bool) -> list[Any]:
    """The objects of an ndjson upload; `discard` leaves out lines that are not JSON objects."""
    if len(payload) > catalog.VECTORIZE_UPLOAD_BYTES.value:
        raise limits.UPLOAD_BYTES(actual=len(payload))
    return list(_objects(payload, op, discard))


def _objects(payload: bytes, op: WriteOp, discard: bool) -> Iterator[Any]:
    for number, line in enumerate(payload.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if isinstance(value, dict):
            yield value
        elif not discard:
            raise limits.VECTORS_UNPARSABLE(op=op, problem=f"line {number} is not a JSON object")


def _row(vector: Any, dimensions: int, op: WriteOp) -> VectorRow:
    if not isinstance(vector, dict):
        raise limits.VECTORS_UNPARSABLE(op=op, problem="expected an object")
    name = check_id(vector.get("id"), op)
    values = numbers(vector.get("values"))
    if values is None:
        raise limits.VECTORS_UNPARSABLE(op=op, problem=f"values of id={name!r} must be finite numbers")
    if len(values) != dimensions:
        raise limits.VECTOR_DIMENSIONS(id=name, expected=dimensions, actual=len(values))
    metadata = vector.get("metadata")
    return VectorRow(
        name,
        check_namespace(vector.get("namespace"), op),
        None if metadata is None else _metadata(name, metadata, op),
        values.tobytes(),
    )


def numbers(raw: Any) -> FloatArray | None:
    """`raw` as float32, or None when it isn't a list of finite numbers."""
    if not isinstance(raw, list):
        return None
    if not raw:
        return np.empty(0, np.float32)
    try:
        array = np.asarray(raw)
    except ValueError:
        return None
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        return None
    with np.errstate(over="ignore"):
        values: FloatArray = array.astype(np.float32)
    return values if np.isfinite(values).all() else None


def check_id(raw: Any, op: str) -> str:
    if not isinstance(raw, str) or not raw:
        raise limits.VECTORS_UNPARSABLE(op=op, problem="id must be a non-empty string")
    size = _bytes(raw, op)
    if size > catalog.VECTORIZE_ID_BYTES.value:
        raise limits.VECTOR_ID(actual=size)
    return raw


def check_namespace(raw: Any, op: str) -> str | None:
    if raw is None:
        return None
    if not isinstance(raw, str):
        raise limits.VECTORS_UNPARSABLE(op=op, problem="namespace must be a string")
    size = _bytes(raw, op)
    if size > catalog.VECTORIZE_NAMESPACE_BYTES.value:
        raise limits.NAMESPACE(actual=size)
    return raw


def _bytes(text: str, op: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise limits.VECTORS_UNPARSABLE(op=op, problem="text is not valid Unicode") from error


def _metadata(name: str, metadata: Any, op: WriteOp) -> str:
    if not isinstance(metadata, dict):
        raise limits.VECTORS_UNPARSABLE(op=op, problem=f"metadata of id={name!r} must be an object")
    _check_keys(metadata, op)
    text = json.dumps(metadata, separators=(",", ":"), ensure_ascii=False)
    size = _bytes(text, op)
    if size > catalog.VECTORIZE_METADATA_BYTES.value:
        raise limits.METADATA_BYTES(id=name, actual=size)
    return text


def _check_keys(metadata: dict[str, Any], op: WriteOp) -> None:
    for key, value in metadata.items():
        if not key or key.startswith("$") or "." in key or '"' in key:
            raise limits.VECTORS_UNPARSABLE(
                op=op, problem=f'metadata key {key!r}: must not be empty, start with "$", hold "." or a quote'
            )
        if isinstance(value, dict):
            _check_keys(value, op)
        elif isinstance(value, float) and not math.isfinite(value):
            raise limits.VECTORS_UNPARSABLE(op=op, problem=f"metadata {key!r} is not a JSON number")
