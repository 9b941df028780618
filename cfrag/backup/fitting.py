"""Whether the documents of a backup fit a service: everything that doesn't, before anything is written."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cfrag.backup.file import Json
from cfrag.errors import InputError
from cfrag.output import plural
from infra.catalog import VECTORIZE_INDEXED_STRING_BYTES

_KINDS = {bool: "boolean", str: "string", int: "number", float: "number"}


def check_documents(documents: Iterable[Json], target: Mapping[str, Any]) -> None:
    """Raises InputError that names each kind of mismatch once, with how many documents it concerns."""
    found: dict[str, list[str]] = {}
    for document in documents:
        for fault in faults(document, target):
            found.setdefault(fault, []).append(document["id"])
    if found:
        lines = [
            f"  {fault}: {plural(len(ids), 'document')}, the first is {ids[0]!r}"
            for fault, ids in sorted(found.items())
        ]
        raise InputError(
            f"the documents don't fit {target['name']}, and nothing was written:\n"
            + "\n".join(lines)
            + "\nchange the config of the target, or leave fields out with --drop-field NAME"
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
            yield f"field {name!r} is {value!r}, which is none of its values there"
        elif field["filterable"] and kind == "string" and len(value.encode()) > _MOST:
            yield f"field {name!r} is filterable there and has more than {_MOST} bytes"


_MOST = VECTORIZE_INDEXED_STRING_BYTES.value


def check_vectors(header: Mapping[str, Any], target: Mapping[str, Any]) -> None:
    """Raises InputError that says why the file's vectors can't go into the target's space as they are."""
    problems = []
    if not header["vectors"]:
        problems.append("the file has no vectors (cfrag export --vectors)")
    for key in ("model", "pooling", "dims", "fingerprint"):
        if header[key] != target[key]:
            problems.append(f"{key} is {header[key]} in the file and {target[key]} there")
    if target["state"] == "reindexing":
        problems.append("all documents are being embedded again there (cfrag stats)")
    if problems:
        raise InputError(
            "these vectors can't be taken over: "
            + "; ".join(problems)
            + "; without --vectors the documents are embedded there"
        )
