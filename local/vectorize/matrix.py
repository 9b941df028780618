"""The vectors of one index in memory: exact scores and metadata-index values."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from local.vectorize.filters import ABSENT, Condition, IndexType, indexed_value
from local.vectorize.vectors import FloatArray

_Cell = TypeVar("_Cell")
Metric = Literal["cosine", "euclidean", "dot-product"]


class Scored(NamedTuple):
    id: str
    score: float


class Column(NamedTuple):
    """A metadata index: one held value per row of the matrix."""

    kind: IndexType
    held: list[object]


class Matrix:
    """Rows of float32, scored exactly. Rows move when others are removed: only ids are stable."""

    def __init__(self, dimensions: int, metric: Metric) -> None:
        self.metric = metric
        self._ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._data: FloatArray = np.empty((64, dimensions), np.float32)
        self._namespaces: list[str | None] = []
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def put(self, name: str, namespace: str | None, metadata: dict[str, Any] | None, values: bytes) -> None:
        """Add or replace a vector; it is then in every metadata index that exists now."""
        row = self._rows.get(name)
        if row is None:
            row = self._append(name)
        vector = np.frombuffer(values, np.float32)
        self._data[row] = _unit(vector) if self.metric == "cosine" else vector
        self._namespaces[row] = namespace
        for prop, column in self._columns.items():
            column.held[row] = indexed_value(metadata or {}, prop, column.kind)

    def hide(self, name: str, prop: str) -> None:
        """Take a vector out of one metadata index: it was written before the index existed."""
        self._columns[prop].held[self._rows[name]] = ABSENT

    def drop(self, name: str) -> None:
        row = self._rows.pop(name, None)
        if row is None:
            return
        last = len(self._ids) - 1
        self._data[row] = self._data[last]
        _replace_by_last(self._ids, row)
        _replace_by_last(self._namespaces, row)
        for column in self._columns.values():
            _replace_by_last(column.held, row)
        if row != last:
            self._rows[self._ids[row]] = row

    def add_index(self, prop: str, kind: IndexType) -> None:
        """A new metadata index: no vector is in it yet."""
        self._columns[prop] = Column(kind, [ABSENT] * len(self._ids))

    def drop_index(self, prop: str) -> None:
        self._columns.pop(prop, None)

    def search(
        self, query: FloatArray, top_k: int, namespace: str | None, conditions: Iterable[Condition]
    ) -> list[Scored]:
        """The best `top_k` vectors, best first: namespace first, then the filter, then the metric."""
        rows = self._candidates(namespace, conditions)
        if len(rows) == 0:
            return []
        scores = self._scores(query, rows)
        keys = -scores if self.metric == "cosine" else scores
        best = np.argpartition(keys, min(top_k, len(rows)) - 1)[:top_k]
        found = [(float(keys[at]), self._ids[rows[at]], float(scores[at])) for at in best]
        return [Scored(name, score) for _, name, score in sorted(found)]

    def _append(self, name: str) -> int:
        row = len(self._ids)
        if row == len(self._data):
            grown: FloatArray = np.empty((2 * row, self._data.shape[1]), np.float32)
            grown[:row] = self._data
            self._data = grown
        self._ids.append(name)
        self._namespaces.append(None)
        self._rows[name] = row
        for column in self._columns.values():
            column.held.append(ABSENT)
        return row

    def _candidates(self, namespace: str | None, conditions: Iterable[Condition]) -> NDArray[np.intp]:
        mask = np.ones(len(self._ids), np.bool_)
        if namespace is not None:
            mask &= _flags(space == namespace for space in self._namespaces)
        for condition in conditions:
            column = self._columns.get(condition.property)
            if column is None:
                return np.empty(0, np.intp)
            mask &= _flags(held is not ABSENT and condition.matches(held) for held in column.held)
        return np.flatnonzero(mask)

    def _scores(self, query: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
        count = len(self._ids)
        data = self._data[:count] if len(rows) == count else self._data[rows]
        if self.metric == "cosine":
            scores: FloatArray = np.clip(data @ _unit(query), -1.0, 1.0)
        elif self.metric == "dot-product":
            scores = -(data @ query)
        else:
            scores = np.sqrt(((data - query) ** 2).sum(axis=1))
        return scores


def _flags(values: Iterable[bool]) -> NDArray[np.bool_]:
    return np.fromiter(values, np.bool_)


def _unit(vector: FloatArray) -> FloatArray:
    length = float(np.linalg.norm(vector))
    result: FloatArray = vector / np.float32(length) if length else vector
    return result


def _replace_by_last(cells: list[_Cell], row: int) -> None:
    cells[row] = cells[-1]
    cells.pop()
