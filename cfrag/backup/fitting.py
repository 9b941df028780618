"""Whether the documents of a backup fit a service: everything that doesn't, before anything is written."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cfrag.backup.file import Json
from cfrag.errors import InputError
from cfrag.output import plural
from infra.catalog import VECTORIZE_INDEXED_STRING_BYTES

_KINDS = {bool: "boolean", str: "string", int: "number", float: "number"}
_MOST = VECTORIZE_INDEXED_STRING_BYTES.value


def check(
    header: Mapping[str, Any], documents: Iterable[Json], target: Mapping[str, Any], *, vectors: bool
) -> None:
    """Raises InputError that names everything that doesn't fit, each kind once with its documents' number."""
    found: dict[str, list[str]] = {}
    for document in documents:
        for fault in faults(document, target):
            found.setdefault(fault, []).append(document["id"])
    lines = [f"vectors: {fault}" for fault in (vector_faults(header, target) if vectors else ())]
    lines += [
        f"{fault}: {plural(len(ids), 'document')}, the first is {ids[0]!r}"
        for fault, ids in sorted(found.items())
    ]
    if lines:
        raise InputError(
            f"the backup doesn't fit {target['name']}, and nothing was written:\n  "
            + "\n  ".join(lines)
            + "\nchange the config of the target"
            + ("; or leave fields out with --drop-field NAME" if found else "")
            + ("; or have the documents embedded there, without --vectors" if vectors else "")
        )


def faults(document: Json, target: Mapping[str, Any]) -> Iterator[str]:
    """What keeps a document from being stored there, by the target's fields and tags."""
    if len(document["tags"]) > target["maxTags"]:
        yield f"has {len(document['tags'])} tags, {target['maxTags']} are kept there (tags.maxPerDocument)"
    for name, value in document["metadata"].items():
        field = target["fields"].get(name)
        if field is None:
            yield f"field {name!r} is not declared there"
        elif (kind := _KINDS.get(type(value))) != field["type"]:
            yield f"field {name!r} is a {kind} in the file and a {field['type']} there"
        elif field["enum"] and value not in field["enum"]:
            yield f"field {name!r} has a value that is not declared there"
        elif field["filterable"] and kind == "string" and len(value.encode()) > _MOST:
            yield f"field {name!r} is filterable there and has more than {_MOST} bytes"


def vector_faults(header: Mapping[str, Any], target: Mapping[str, Any]) -> Iterator[str]:
    """What keeps the file's vectors from being those of the target's space."""
    if not header["vectors"]:
        yield "the file has none (cfrag export --vectors)"
    for key in ("model", "pooling", "dims", "fingerprint"):
        if header[key] != target[key]:
            yield f"{key} is {header[key]} in the file and {target[key]} there"
    if target["state"] == "reindexing":
        yield "all documents are being embedded again there (cfrag stats)"
