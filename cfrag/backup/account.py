"""A stack's documents as D1 and Vectorize hold them, read through the account: no Worker need run."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cfrag.backup.file import Json
from cfrag.errors import InputError
from cfrag.stack_account import StackAccount
from infra.bundle.statements import STATEMENTS
from infra.catalog import API_CALLS_PER_5_MIN, VECTORIZE_GET_IDS

if TYPE_CHECKING:
    from cloudflare import Cloudflare

_LIST = 100
# As long as the Worker takes a claim for alive: until then a vector of an older model may be seen.
_SETTLED_MS = 5 * 60 * 1000
# A burst is free; after it, a quarter of the account's calls is left to others.
_BURST = API_CALLS_PER_5_MIN.value // 4
_SECONDS_PER_CALL = 300 / (API_CALLS_PER_5_MIN.value // 2)
_RESERVED = frozenset({"rawBody", "title", "content", "active", "contentHash"})
_TAG = re.compile(r"tags(_\d+)?")


@dataclass(frozen=True)
class _Space:
    """The space that answers searches, and which columns of a row speak of it."""

    found: Json
    index: str

    @property
    def columns(self) -> tuple[str, str]:
        main = self.found.get("side", "main") == "main"
        return ("content_hash", "embed_model") if main else ("next_hash", "next_model")


class AccountSource:
    """Answers as the service's client does. Raises InputError, Refused and Unreachable."""

    def __init__(self, account: StackAccount) -> None:
        self._account = account
        self._database = account.database()
        self._calls = 0
        self._vectors: dict[str, Json] = {}
        self._space = self._read_space()

    @property
    def address(self) -> str:
        """What the backup's header calls it."""
        return f"cloudflare:{self._account.id}/{self._account.names.db}"

    def space(self) -> Json:
        """As of this moment; the fields and tags are those of the stack's config."""
        self._space, config = self._read_space(), self._account.config
        space = self._space.found
        reindexing = bool(space["reindexing"])
        quiet = int(time.time() * 1000) - space["since"] > _SETTLED_MS
        return {
            "name": config.name,
            "state": "reindexing" if reindexing else "ok",
            **{key: space[key] for key in ("generation", "model", "dims", "metric", "fingerprint", "since")},
            "pooling": _pooling(space),
            "settled": quiet and not reindexing,
            "maxTags": config.tags.max_per_document,
            "fields": {name: field.model_dump(mode="json") for name, field in config.metadata.items()},
        }

    def stats(self) -> Json:
        return {"documents": {"total": sum(row["documents"] for row in self._query("counts"))}}

    def documents(self, after: str | None, *, content: bool) -> list[Json]:
        self._vectors.clear()
        most = VECTORIZE_GET_IDS.value if content else _LIST
        rows = self._query("list_rows", after or "", str(most))
        return self._with_content(rows) if content else [self._state(row) for row in rows]

    def document(self, doc_id: str) -> Json | None:
        rows = self._query("rows", json.dumps([doc_id]))
        found = self._with_content([row for row in rows if row["deleted_at"] is None])
        return found[0] if found else None

    def vectors(self, ids: Sequence[str]) -> Json:
        """Those of documents that were read with their content just before: they came with it."""
        space = {key: self._space.found[key] for key in ("generation", "fingerprint")}
        read = (self._vectors.pop(doc_id, None) for doc_id in ids)
        return {**space, "vectors": [each for each in read if each is not None]}

    def _with_content(self, rows: list[Json]) -> list[Json]:
        found = self._records([row["id"] for row in rows])
        return [self._document(row, found.get(row["id"])) for row in rows]

    def _document(self, row: Json, record: Json | None) -> Json:
        state = self._state(row)
        if record is None or _hash(record) != state["contentHash"]:
            return {**state, "state": "indexing"}
        if row[self._space.columns[1]] == self._space.found["mark"]:
            vector = {"id": row["id"], "contentHash": state["contentHash"], "values": record["values"]}
            self._vectors[row["id"]] = vector
        return {**state, **self._content(record["metadata"]), "state": "indexed"}

    def _state(self, row: Json) -> Json:
        return {
            "id": row["id"],
            "active": bool(row["active"]),
            "contentHash": row[self._space.columns[0]],
        }

    def _content(self, metadata: Mapping[str, Any]) -> Json:
        """A document out of a vector's metadata, as the Worker reads it (`rag/document.py`)."""
        tags = [name for name in metadata if _TAG.fullmatch(name)]
        fields = {name: value for name, value in metadata.items() if name not in _RESERVED | set(tags)}
        return {
            "title": metadata.get("title"),
            "body": metadata["rawBody"],
            "tags": [metadata[name] for name in sorted(tags, key=lambda name: (len(name), name))],
            "metadata": {name: self._number(name, value) for name, value in fields.items()},
        }

    def _number(self, name: str, value: Any) -> Any:
        field = self._account.config.metadata.get(name)
        whole = isinstance(value, float) and value.is_integer()
        return int(value) if whole and field is not None and field.type == "number" else value

    def _records(self, ids: Sequence[str]) -> dict[str, Json]:
        """What Vectorize holds of at most 20 ids."""
        if not ids:
            return {}

        def read(client: "Cloudflare") -> Any:
            index, account = self._space.index, self._account.id
            return client.vectorize.indexes.get_by_ids(index, account_id=account, ids=list(ids))

        found: Any = self._call("read vectors", read)
        return {each["id"]: each for each in found or ()}

    def _query(self, statement: str, *params: str) -> list[Json]:
        def run(client: "Cloudflare") -> list[Any]:
            sql, account = STATEMENTS[statement], self._account.id
            given = list(params)
            return list(client.d1.database.query(self._database, account_id=account, sql=sql, params=given))

        results = self._call("read the documents' state", run)
        rows: list[Any] = list(results[0].results or ()) if results else []
        return [dict(row) for row in rows]

    def _call(self, doing: str, function: "Callable[[Cloudflare], Any]") -> Any:
        self._calls += 1
        if self._calls > _BURST:
            time.sleep(_SECONDS_PER_CALL)
        return self._account.call(doing, function)

    def _read_space(self) -> _Space:
        from infra.provider import d1

        meta = self._account.ask(lambda call: d1.meta(call, self._database))
        found = d1.space_of(meta or {})
        if not found:
            raise InputError(f"{self._account.names.db} holds no documents yet: nothing was ever ingested")
        return _Space(found, self._account.names.index(found["generation"], found["dims"]))


def _hash(record: Json) -> str | None:
    found: str | None = (record.get("metadata") or {}).get("contentHash")
    return found


def _pooling(space: Json) -> str | None:
    """The third of the model's properties, as the Worker writes them down."""
    pooling: str | None = space["profile"][2]
    return pooling
