"""What can be seen of the indexes: mutations applied to the stored vectors and to their matrices."""

import json
from typing import Any, cast

from local.vectorize.filters import IndexType
from local.vectorize.matrix import Matrix
from local.vectorize.store import IndexRow, MetadataIndexRow, Mutation, VectorStore
from local.vectorize.vectors import VectorRow, WriteOp


class Visible:
    """Keeps a matrix per index that was searched, in step with the store. Not thread-safe by itself."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._matrices: dict[int, Matrix] = {}

    def settle(self, uid: int, until: float, delay: float) -> None:
        """Process what was submitted up to `until`, in order; each is done `delay` after its submission."""
        for mutation in self._store.pending(uid):
            if mutation.submitted_at > until:
                return
            self._process(uid, mutation, mutation.submitted_at + delay)

    def write(self, uid: int, mutation: Mutation, rows: list[VectorRow], at: float) -> None:
        """Process an insert or upsert of `rows` at time `at`."""
        op = cast(WriteOp, mutation.kind)
        self._store.write(uid, mutation.seq, rows, op)
        self._store.processed(uid, mutation, at)
        matrix = self._matrices.get(uid)
        if matrix is None:
            return
        for row in rows:
            if op == "upsert" or row.id not in matrix:
                matrix.put(row.id, row.namespace, _loaded(row.metadata), row.values)

    def forget(self, uid: int) -> None:
        """Drop the matrix of an index: it is loaded again when it is needed."""
        self._matrices.pop(uid, None)

    def _process(self, uid: int, mutation: Mutation, at: float) -> None:
        if mutation.kind in ("insert", "upsert"):
            self.write(uid, mutation, self._store.staged(mutation.seq), at)
            return
        if mutation.kind == "delete":
            self._remove(uid, [row.id for row in self._store.staged(mutation.seq)])
        elif mutation.kind == "index-create":
            self._add_metadata_index(uid, mutation)
        else:
            self._drop_metadata_index(uid, str(mutation.property))
        self._store.processed(uid, mutation, at)

    def _remove(self, uid: int, ids: list[str]) -> None:
        self._store.remove(uid, ids)
        if uid in self._matrices:
            for one in ids:
                self._matrices[uid].drop(one)

    def _add_metadata_index(self, uid: int, mutation: Mutation) -> None:
        prop, kind = str(mutation.property), cast(IndexType, mutation.type)
        if any(row.property == prop for row in self._store.metadata_indexes(uid)):
            return
        self._store.put_metadata_index(uid, MetadataIndexRow(prop, kind, mutation.seq))
        if uid in self._matrices:
            self._matrices[uid].add_index(prop, kind)

    def _drop_metadata_index(self, uid: int, prop: str) -> None:
        self._store.drop_metadata_index(uid, prop)
        if uid in self._matrices:
            self._matrices[uid].drop_index(prop)

    def accepted_metadata_indexes(self, uid: int) -> dict[str, IndexType]:
        """What will exist once everything pending is processed."""
        known = {row.property: row.type for row in self._store.metadata_indexes(uid)}
        for mutation in self._store.pending(uid):
            if mutation.kind == "index-create":
                known.setdefault(str(mutation.property), cast(IndexType, mutation.type))
            elif mutation.kind == "index-delete":
                known.pop(str(mutation.property), None)
        return known

    def matrix(self, index: IndexRow) -> Matrix:
        matrix = self._matrices.get(index.uid)
        if matrix is None:
            matrix = self._matrices[index.uid] = self._load(index)
        return matrix

    def _load(self, index: IndexRow) -> Matrix:
        matrix = Matrix(index.dimensions, index.metric)
        indexed = self._store.metadata_indexes(index.uid)
        for row in indexed:
            matrix.add_index(row.property, row.type)
        for vector in self._store.vectors(index.uid):
            matrix.put(vector.id, vector.namespace, _loaded(vector.metadata), vector.values)
            for row in indexed:
                if vector.seq < row.seq:
                    matrix.hide(vector.id, row.property)
        return matrix


def _loaded(metadata: str | None) -> dict[str, Any] | None:
    return None if metadata is None else cast(dict[str, Any], json.loads(metadata))
