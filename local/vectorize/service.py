"""Vectorize itself: eventually consistent indexes that search exactly."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra import catalog
from local import limits
from local.envelope import ApiError
from local.vectorize import query as queries
from local.vectorize.filters import IndexType
from local.vectorize.listing import Snapshots
from local.vectorize.matrix import Metric
from local.vectorize.objects import JsonObject, floats, index_object, iso, match_object, vector_object
from local.vectorize.store import IndexRow, Mutation, VectorStore
from local.vectorize.vectors import WriteOp, check_id, rows
from local.vectorize.visible import Visible


class VectorizeService:
    """All indexes of the account, in the SQLite file `path`.

    A write is accepted at once and becomes visible `delay` seconds later, to every read alike and
    in the order of acceptance; a changed `delay` holds for what is pending, too. Every refusal is
    an ApiError of `local.limits`. Methods block: call them from a thread.
    """

    def __init__(self, path: Path, delay: float = 0.0, clock: Callable[[], float] = time.time) -> None:
        self.delay = delay
        self._clock = clock
        self._lock = threading.RLock()
        self._store = VectorStore(path)
        self._visible = Visible(self._store)
        self._snapshots = Snapshots(clock)

    def close(self) -> None:
        self._store.close()

    # -- indexes ------------------------------------------------------------------------------

    def create(self, name: str, description: str | None, dimensions: int, metric: Metric) -> JsonObject:
        with self._lock, self._store.transaction():
            if self._store.index(name):
                raise limits.INDEX_DUPLICATE(name=name)
            self._store.create(name, description, dimensions, metric)
            return index_object(self._index(name))

    def delete(self, name: str) -> None:
        with self._lock, self._store.transaction():
            index = self._index(name)
            self._store.delete(index.uid)
            self._visible.forget(index.uid)

    def describe_index(self, name: str) -> JsonObject:
        return index_object(self._index(name))

    def list_indexes(self) -> list[JsonObject]:
        return [index_object(index) for index in self._store.indexes()]

    def info(self, name: str) -> JsonObject:
        """Counts what is visible. A new index has no `processedUpTo…` yet."""
        with self._settled(name) as index:
            info: JsonObject = {"dimensions": index.dimensions, "vectorCount": self._store.count(index.uid)}
            if index.processed_mutation and index.processed_at is not None:
                info["processedUpToDatetime"] = iso(index.processed_at)
                info["processedUpToMutation"] = index.processed_mutation
            return info

    # -- writes -------------------------------------------------------------------------------

    def write(self, name: str, vectors: list[Any], op: WriteOp) -> JsonObject:
        """Accept an insert or upsert of vectors as JSON objects, whole or not at all."""
        with self._settled(name) as index:
            staged = rows(vectors, index.dimensions, op)
            mutation = self._log(index, op)
            if self.delay > 0:
                self._store.stage(mutation.seq, staged)
            else:
                self._visible.write(index.uid, mutation, staged, mutation.submitted_at)
            return {"mutationId": mutation.id}

    def delete_by_ids(self, name: str, ids: Any) -> JsonObject:
        with self._settled(name) as index:
            wanted = _ids(ids, limits.DELETE_IDS)
            mutation = self._log(index, "delete")
            self._store.stage_ids(mutation.seq, wanted)
            self._settle(index.uid)
            return {"mutationId": mutation.id}

    def create_metadata_index(self, name: str, prop: str, kind: IndexType) -> JsonObject:
        """Accept a metadata index; one that exists with the same type is accepted again, unchanged."""
        with self._settled(name) as index:
            known = self._visible.accepted_metadata_indexes(index.uid)
            if known.get(prop, kind) != kind:
                raise limits.METADATA_INDEX_TYPE(name=prop, type=known[prop])
            if prop not in known and len(known) >= catalog.VECTORIZE_METADATA_INDEXES.value:
                raise limits.METADATA_INDEX_COUNT()
            mutation = self._log(index, "index-create", prop, kind)
            self._settle(index.uid)
            return {"mutationId": mutation.id}

    def delete_metadata_index(self, name: str, prop: str) -> JsonObject:
        with self._settled(name) as index:
            if prop not in self._visible.accepted_metadata_indexes(index.uid):
                raise limits.METADATA_INDEX_MISSING(name=prop)
            mutation = self._log(index, "index-delete", prop)
            self._settle(index.uid)
            return {"mutationId": mutation.id}

    # -- reads --------------------------------------------------------------------------------

    def metadata_indexes(self, name: str) -> list[JsonObject]:
        with self._settled(name) as index:
            found = self._store.metadata_indexes(index.uid)
            return [{"propertyName": row.property, "indexType": row.type} for row in found]

    def get_by_ids(self, name: str, ids: Any) -> list[JsonObject]:
        """Visible vectors in the order asked for; unknown ids are left out."""
        with self._settled(name) as index:
            wanted = list(dict.fromkeys(_ids(ids, limits.GET_IDS)))
            found = self._store.get(index.uid, wanted)
            return [vector_object(found[one], values=True) for one in wanted if one in found]

    def query(self, name: str, vector: Any, raw: Any) -> JsonObject:
        """The nearest visible vectors as `{count, matches}`, best first."""
        with self._settled(name) as index:
            return self._query(index, vector, raw)

    def query_by_id(self, name: str, vector_id: Any, raw: Any) -> JsonObject:
        """As `query`, with the values of a stored vector."""
        with self._settled(name) as index:
            wanted = check_id(vector_id, "query")
            found = self._store.get(index.uid, [wanted])
            if wanted not in found:
                raise limits.QUERY_ID_UNKNOWN(id=wanted)
            return self._query(index, floats(found[wanted].values), raw)

    def list_vectors(self, name: str, count: int, cursor: str | None) -> JsonObject:
        """A page of ids; all pages of one listing show the index as it was at the first."""
        if not 1 <= count <= catalog.VECTORIZE_LIST_COUNT.value:
            raise limits.LIST_COUNT(actual=count)
        with self._settled(name) as index:
            return self._snapshots.page(index.uid, count, cursor, lambda: self._store.ids(index.uid))

    # -- inside -------------------------------------------------------------------------------

    def _index(self, name: str) -> IndexRow:
        index = self._store.index(name)
        if index is not None:
            return index
        raise (limits.INDEX_GONE if self._store.was_deleted(name) else limits.INDEX_NOT_FOUND)(name=name)

    @contextmanager
    def _settled(self, name: str) -> Iterator[IndexRow]:
        """The index, with everything processed that is due, in one transaction of the caller's own."""
        with self._lock:
            with self._store.transaction():
                uid = self._index(name).uid
                self._settle(uid)
            try:
                with self._store.transaction():
                    yield self._index(name)
            except ApiError:
                raise
            except Exception:
                # The matrix may hold what was just rolled back: load it again.
                self._visible.forget(uid)
                raise

    def _log(
        self, index: IndexRow, kind: str, prop: str | None = None, of: IndexType | None = None
    ) -> Mutation:
        return self._store.log(index.uid, self._clock(), kind, prop, of)

    def _query(self, index: IndexRow, vector: Any, raw: Any) -> JsonObject:
        wanted = queries.options(raw)
        nearest = queries.query_vector(vector, index.dimensions)
        found = self._visible.matrix(index).search(nearest, wanted.top_k, wanted.namespace, wanted.conditions)
        stored = self._store.get(index.uid, [one.id for one in found]) if found else {}
        indexed = self._store.metadata_indexes(index.uid)
        matches = [match_object(stored[one.id], one.score, wanted, indexed) for one in found]
        return {"count": len(matches), "matches": matches}

    def _settle(self, uid: int) -> None:
        self._visible.settle(uid, self._clock() - self.delay, self.delay)


def _ids(raw: Any, refusal: limits.Refusal) -> list[str]:
    if not isinstance(raw, list):
        raise limits.JSON_UNPARSABLE(problem="ids: expected an array of strings")
    if refusal.limit is not None and len(raw) > refusal.limit.value:
        raise refusal(actual=len(raw))
    return [check_id(one, "id") for one in raw]
