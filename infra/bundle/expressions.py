"""What the Worker's statements are put together from: parameters, the two sides of a row, and fences."""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    and_,
    bindparam,
    func,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    types,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.expression import ClauseElement

from infra.bundle.tables import DOCUMENTS, META

D, M = DOCUMENTS.c, META.c
ROW = list(DOCUMENTS.columns)
_BIND = re.compile(r"(?<![:\w]):(\w+)\b")
# In place of an identity in `ids` of `meta`'s space: no space is kept in these columns.
UNUSED = "-"


@dataclass(frozen=True)
class Statement:
    expression: ClauseElement
    params: tuple[str, ...]

    def sql(self) -> str:
        """One line of SQL with ?1, ?2 … in the order of `params`."""
        compiled = self.expression.compile(dialect=sqlite.dialect(paramstyle="named"))

        def placed(match: re.Match[str]) -> str:
            name = match[1]
            if name in self.params:
                return f"?{self.params.index(name) + 1}"
            return _literal(compiled.params[name])

        return " ".join(_BIND.sub(placed, str(compiled)).split())


def _literal(value: object) -> str:
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    raise TypeError(f"a statement holds {value!r}, which is no parameter and no constant")


def param(name: str) -> Any:
    return bindparam(name, type_=types.Text())


def number(name: str) -> Any:
    return bindparam(name, type_=types.Integer())


NOW, CUT, MODEL, SCHEMA = number("now"), number("cut"), param("model"), param("schema")
# The mark of the other space of a replacement, "" where there is none.
OTHER = param("other")
EACH = func.json_each(param("items")).table_valued("value", name="each")


def failed_mark(mark: Any) -> ColumnElement[str]:
    """What a row carries instead of a mark where that model never takes the document."""
    return literal_column("'!'").concat(mark)


def item(key: str) -> ColumnElement[Any]:
    return func.json_extract(EACH.c.value, literal_column(f"'$.{key}'"))


def contested(hash_column: Any) -> ColumnElement[bool]:
    return func.substr(hash_column, 1, 1) == "+"


def same_claims() -> ColumnElement[bool]:
    """Rows of the JSON array [{id, seq}] that nobody has claimed since."""
    return tuple_(D.id, D.seq).in_(select(item("id"), item("seq")).select_from(EACH))


class Side(NamedTuple):
    """One of the two groups of columns that say what a space holds of a document, named as in `meta`."""

    name: str
    hash: Column[Any]
    model: Column[Any]
    rev: Column[Any]

    @property
    def nothing(self) -> dict[str, Any]:
        """Values for: what this space holds is not known."""
        return {column.name: null() for column in (self.hash, self.model, self.rev)}

    def member(self, name: str, of: Any = None) -> ColumnElement[Any]:
        """`ids` or `marks` of the space in these columns; null where there is none yet."""
        path: ColumnElement[str] = literal_column(f"'$.{name}.{self.name}'")
        if of is not None:
            return func.json_extract(of, path)
        found = select(func.json_extract(M.value, path)).where(M.key == "space")
        return found.scalar_subquery()

    def still(self, identity: Any) -> ColumnElement[bool]:
        """Whether these columns are still those of the space that the caller took them for.

        A Worker whose replacement has been finished or aborted meanwhile must not write down anything.
        """
        still: ColumnElement[bool] = func.coalesce(self.member("ids"), identity) == identity
        return still

    def reached(self) -> ColumnElement[bool]:
        """Whether the caller has reached the space in these columns, or there is none."""
        known, among = self.member("ids"), func.json_each(param("reached")).table_valued("value", name="them")
        return or_(known.is_(None), known == UNUSED, known.in_(select(among.c.value).select_from(among)))

    def unlike(self, mark: Any) -> ColumnElement[bool]:
        """Vectors to be made again, or only to be written again; not those that can't be embedded."""
        other = and_(self.model.is_distinct_from(mark), self.model.is_distinct_from(failed_mark(mark)))
        return or_(other, self.rev.is_distinct_from(SCHEMA))


MAIN = Side("main", D.content_hash, D.embed_model, D.schema_rev)
NEXT = Side("next", D.next_hash, D.next_model, D.next_rev)
