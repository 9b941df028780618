"""Every SQL statement of the Worker, as SQLAlchemy expressions compiled for D1 when a bundle is rendered.

A statement binds numbered parameters in the order of its `Statement.params`. Whatever may be many is one
parameter, a JSON array read with `json_each`, so no statement comes near D1's 100 bound parameters.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
    tuple_,
    types,
    union_all,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.sql.expression import ClauseElement

from infra.bundle.tables import API_KEYS, DOCUMENTS, META

_D, _K, _M = DOCUMENTS.c, API_KEYS.c, META.c
_BIND = re.compile(r"(?<![:\w]):(\w+)\b")
_ROW = [column for column in DOCUMENTS.columns if column.name not in ("next_hash", "next_model")]


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


def _param(name: str) -> Any:
    return bindparam(name, type_=types.Text())


_NOW, _MODEL, _CUT = (
    bindparam("now", type_=types.Integer()),
    _param("model"),
    bindparam("cut", type_=types.Integer()),
)
_EACH = func.json_each(_param("items")).table_valued("value", name="each")


def _item(key: str) -> ColumnElement[Any]:
    return func.json_extract(_EACH.c.value, literal_column(f"'$.{key}'"))


def _contested(hash_column: Any) -> ColumnElement[bool]:
    return func.substr(hash_column, 1, 1) == "+"


def _same_claims() -> ColumnElement[bool]:
    """Rows of the JSON array [{id, seq}] that nobody has claimed since."""
    return tuple_(_D.id, _D.seq).in_(select(_item("id"), _item("seq")).select_from(_EACH))


def _items_of(key: str = "id") -> Any:
    return select(_EACH.c.value if key == "" else _item(key)).select_from(_EACH)


def _claim(forced: bool) -> ClauseElement:
    """Claim documents for writing; a row comes back for each that has to be written, none if unchanged."""
    rows = select(_item("id"), _NOW, _item("hash"), _NOW, _item("active")).select_from(_EACH).where(true())
    statement = insert(DOCUMENTS).from_select(["id", "seq", "pending_hash", "pending_at", "active"], rows)
    new = statement.excluded
    differs = or_(
        _D.content_hash.is_distinct_from(new.pending_hash),
        # Neither this Worker's model nor the operator's: an older Worker leaves what a newer has embedded.
        and_(_D.embed_model.is_distinct_from(_MODEL), _D.embed_model.is_distinct_from(_param("desired"))),
        _D.active != new.active,
        _D.pending_at.is_not(None),
        _D.deleted_at.is_not(None),
    )
    alone = or_(_D.pending_hash.is_(None), _D.pending_hash == new.pending_hash)
    return statement.on_conflict_do_update(
        index_elements=[_D.id],
        set_={
            "seq": _D.seq + 1,
            "pending_hash": case(
                (alone, new.pending_hash), else_=literal_column("'+'").concat(new.pending_hash)
            ),
            "pending_at": new.pending_at,
            "embed_model": case((_D.embed_model == _MODEL, _D.embed_model), else_=null()),
            "next_hash": null(),
            "next_model": null(),
        },
        where=None if forced else differs,
    ).returning(*_ROW)


def _commit() -> ClauseElement:
    """Write down what the claims have written; a claim whose id does not come back has lost."""
    return (
        update(DOCUMENTS)
        .values(
            content_hash=_item("hash"),
            # Two writes at a time may have reached the index in either order: stays pending until verified.
            pending_hash=case((_contested(_D.pending_hash), _D.pending_hash), else_=null()),
            pending_at=case((_contested(_D.pending_hash), _NOW), else_=null()),
            indexed_at=_NOW,
            active=_item("active"),
            embed_model=_MODEL,
            schema_rev=_param("schema"),
            next_hash=_item("nextHash"),
            next_model=_item("nextModel"),
            deleted_at=null(),
            lease_at=null(),
        )
        .where(_D.id == _item("id"), _D.seq == _item("seq"))
        .returning(_D.id)
    )


def _lost() -> ClauseElement:
    """Mark documents whose commit lost, so that they are verified whatever happens to the message."""
    statement = insert(DOCUMENTS).from_select(
        ["id", "seq", "active", "pending_hash", "pending_at", "deleted_at"],
        select(_EACH.c.value, _NOW, literal_column("0"), literal_column("'+'"), _NOW, _NOW)
        .select_from(_EACH)
        .where(true()),
    )
    mark = literal_column("'+'").concat(func.coalesce(_D.content_hash, literal_column("''")))
    return statement.on_conflict_do_update(
        index_elements=[_D.id],
        set_={
            "pending_hash": func.coalesce(_D.pending_hash, mark),
            "pending_at": func.coalesce(_D.pending_at, statement.excluded.pending_at),
        },
    )


def _release() -> ClauseElement:
    """Give up claims of which nothing has been written."""
    contested = _contested(_D.pending_hash)
    return (
        update(DOCUMENTS)
        .values(
            pending_hash=case((contested, _D.pending_hash), else_=null()),
            pending_at=case((contested, _D.pending_at), else_=null()),
        )
        .where(_same_claims())
    )


def _release_new() -> ClauseElement:
    never = and_(
        _D.content_hash.is_(None), _D.indexed_at.is_(None), _D.deleted_at.is_(None), _D.lease_at.is_(None)
    )
    return delete(DOCUMENTS).where(_same_claims(), never, ~_contested(_D.pending_hash))


def _tombstone() -> ClauseElement:
    """Mark ids as deleted, known or not; an earlier tombstone keeps its time."""
    rows = select(_EACH.c.value, _NOW, literal_column("0"), _NOW).select_from(_EACH).where(true())
    statement = insert(DOCUMENTS).from_select(["id", "seq", "active", "deleted_at"], rows)
    return statement.on_conflict_do_update(
        index_elements=[_D.id],
        set_={
            "seq": _D.seq + 1,
            "deleted_at": func.coalesce(_D.deleted_at, statement.excluded.deleted_at),
            # What was being written may still arrive, but it is not wanted any more.
            "pending_hash": case((_D.pending_hash.is_not(None), literal_column("'+'")), else_=null()),
            **{
                name: null()
                for name in ("content_hash", "embed_model", "schema_rev", "next_hash", "next_model")
            },
        },
    ).returning(*_ROW)


def _drop() -> ClauseElement:
    """Forget tombstones that have reached the index, unless a write begun before may still arrive there."""
    settled = or_(_D.pending_at.is_(None), _D.pending_at < _CUT)
    return delete(DOCUMENTS).where(_same_claims(), _D.deleted_at.is_not(None), settled)


def _rows() -> ClauseElement:
    return select(*_ROW).where(_D.id.in_(_items_of("")))


def _list() -> ClauseElement:
    page = select(*_ROW).where(_D.id > _param("after"), _D.deleted_at.is_(None))
    return page.order_by(_D.id).limit(bindparam("most", type_=types.Integer()))


def _recent() -> ClauseElement:
    newest = select(*_ROW).where(_D.deleted_at.is_(None), _D.indexed_at.is_not(None))
    return newest.order_by(_D.indexed_at.desc()).limit(bindparam("most", type_=types.Integer()))


def _counts() -> ClauseElement:
    """Documents by the fingerprint of their vectors."""
    pending = func.sum(case((or_(_D.pending_at.is_not(None), _D.content_hash.is_(None)), 1), else_=0))
    grouped = select(_D.embed_model, func.count().label("documents"), pending.label("pending"))
    return grouped.where(_D.deleted_at.is_(None)).group_by(_D.embed_model).order_by(_D.embed_model)


def _unlike_wanted() -> ColumnElement[bool]:
    """Documents whose vector is to be made again, or only written again; not those that can't be embedded."""
    other = and_(
        _D.embed_model.is_distinct_from(_MODEL),
        _D.embed_model.is_distinct_from(literal_column("'!'").concat(_MODEL)),
    )
    return or_(other, _D.schema_rev.is_distinct_from(_param("schema")))


def _sweep_page() -> ClauseElement:
    """The next rows that a sweep has to see to: abandoned writes, tombstones, vectors of another making."""
    stored = and_(_D.deleted_at.is_(None), _D.pending_at.is_(None), _D.content_hash.is_not(None))
    wanted = or_(_D.pending_at < _CUT, _D.deleted_at < _CUT, and_(stored, _unlike_wanted()))
    page = select(*_ROW).where(_D.id > _param("after"), wanted).order_by(_D.id)
    return page.limit(bindparam("most", type_=types.Integer()))


def _progress() -> ClauseElement:
    """All documents that a sweep has to bring to the wanted state, and those that are not there yet."""
    known = or_(_D.content_hash.is_not(None), _D.pending_at.is_not(None))
    behind = func.coalesce(func.sum(case((_unlike_wanted(), 1), else_=0)), 0).label("behind")
    return select(func.count().label("total"), behind).where(_D.deleted_at.is_(None), known)


def _lease() -> ClauseElement:
    """Take documents that nobody has touched since they were read, to write their content again."""
    free = and_(
        _D.pending_at.is_(None), _D.deleted_at.is_(None), or_(_D.lease_at.is_(None), _D.lease_at < _CUT)
    )
    kept = case((_D.embed_model == _MODEL, _D.embed_model), else_=null())
    return (
        update(DOCUMENTS)
        .values(seq=_D.seq + 1, lease_at=_NOW, embed_model=kept)
        .where(_same_claims(), free)
        .returning(*_ROW)
    )


def _verified() -> ClauseElement:
    """Write down what the index was found to hold: a hash, or null where nothing is known to be there."""
    found = _item("hash")
    return (
        update(DOCUMENTS)
        .values(
            seq=_D.seq + 1,
            content_hash=found,
            pending_hash=null(),
            pending_at=null(),
            active=func.coalesce(_item("active"), _D.active),
            embed_model=case((found.is_(None), null()), else_=_D.embed_model),
            deleted_at=null(),
        )
        .where(_D.id == _item("id"), _D.seq == _item("seq"))
        .returning(_D.id)
    )


def _failed() -> ClauseElement:
    """Mark documents that the model never takes, so that no sweep tries them again."""
    mark = literal_column("'!'").concat(_MODEL)
    return update(DOCUMENTS).values(embed_model=mark).where(_same_claims())


def _state() -> ClauseElement:
    """All of `meta`, and three rows more that say whether there is something to repair, embed or rewrite."""

    def flag(name: str, *conditions: ColumnElement[bool]) -> Any:
        found = or_(*(select(_D.id).where(condition).exists() for condition in conditions))
        return select(literal_column(f"'?{name}'"), case((found, "1"), else_="0"))

    # "<" or ">" instead of "<>", so that the index answers.
    failed = literal_column("'!'").concat(_MODEL)
    stored = and_(_D.content_hash.is_not(None), _D.pending_at.is_(None))
    drift = [
        and_(_D.embed_model < failed, _D.embed_model.is_not(None)),
        and_(_D.embed_model > failed, _D.embed_model < _MODEL),
        _D.embed_model > _MODEL,
        and_(_D.embed_model.is_(None), stored),
    ]
    schema = _param("schema")
    rewritten = [_D.schema_rev < schema, _D.schema_rev > schema, and_(_D.schema_rev.is_(None), stored)]
    return union_all(
        select(_M.key, _M.value),
        flag("stale", _D.pending_at < _CUT, _D.deleted_at < _CUT),
        flag("drift", *drift),
        flag("schema", *rewritten),
    )


def _meta_put() -> ClauseElement:
    statement = insert(META).values(key=_param("key"), value=_param("value"))
    return statement.on_conflict_do_update(index_elements=[_M.key], set_={"value": statement.excluded.value})


def _meta_swap() -> ClauseElement:
    """Compare and set: a row comes back if the value was still the old one."""
    return (
        update(META)
        .values(value=_param("new"))
        .where(_M.key == _param("key"), _M.value == _param("old"))
        .returning(_M.key)
    )


def _meta_begin() -> ClauseElement:
    """Set what has no value yet; a row comes back if this call has set it."""
    statement = insert(META).values(key=_param("key"), value=_param("value"))
    return statement.on_conflict_do_nothing(index_elements=[_M.key]).returning(_M.key)


def _meta_add() -> ClauseElement:
    # Numbers reach D1 as floats.
    amount = cast(bindparam("amount", type_=types.Integer()), types.Integer())
    statement = insert(META).values(key=_param("key"), value=cast(amount, types.Text()))
    total = cast(cast(_M.value, types.Integer()) + amount, types.Text())
    return statement.on_conflict_do_update(index_elements=[_M.key], set_={"value": total})


def _adopt_schema() -> ClauseElement:
    """Rows that were in a larger set of metadata indexes are in all that are left of it."""
    return update(DOCUMENTS).values(schema_rev=_param("schema")).where(_D.schema_rev == _param("old"))


def _key_add() -> ClauseElement:
    names = ("id", "hash", "name", "scopes", "created_at", "expires_at")
    return insert(API_KEYS).values({name: _param(name) for name in names})


def _key_revoke() -> ClauseElement:
    first = func.coalesce(_K.revoked_at, _NOW)
    public = [column for column in _K if column.name != "hash"]
    return update(API_KEYS).values(revoked_at=first).where(_K.id == _param("id")).returning(*public)


def _sql(make: Callable[[], ClauseElement], *params: str) -> Statement:
    return Statement(make(), params)


_ALL: dict[str, Statement] = {
    "claim": _sql(lambda: _claim(False), "items", "now", "model", "desired"),
    "claim_forced": _sql(lambda: _claim(True), "items", "now", "model"),
    "commit": _sql(_commit, "items", "now", "model", "schema"),
    "lost": _sql(_lost, "items", "now"),
    "release": _sql(_release, "items"),
    "release_new": _sql(_release_new, "items"),
    "tombstone": _sql(_tombstone, "items", "now"),
    "drop": _sql(_drop, "items", "cut"),
    "rows": _sql(_rows, "items"),
    "list_rows": _sql(_list, "after", "most"),
    "recent_rows": _sql(_recent, "most"),
    "counts": _sql(_counts),
    "sweep_page": _sql(_sweep_page, "after", "model", "schema", "cut", "most"),
    "progress": _sql(_progress, "model", "schema"),
    "lease": _sql(_lease, "items", "now", "model", "cut"),
    "verified": _sql(_verified, "items"),
    "failed": _sql(_failed, "items", "model"),
    "state": _sql(_state, "cut", "model", "schema"),
    "meta_put": _sql(_meta_put, "key", "value"),
    "meta_swap": _sql(_meta_swap, "key", "old", "new"),
    "meta_begin": _sql(_meta_begin, "key", "value"),
    "meta_add": _sql(_meta_add, "key", "amount"),
    "meta_drop": _sql(lambda: delete(META).where(_M.key == _param("key")), "key"),
    "adopt_schema": _sql(_adopt_schema, "schema", "old"),
    "key_by_hash": _sql(lambda: select(API_KEYS).where(_K.hash == _param("hash")), "hash"),
    "key_add": _sql(_key_add, "id", "hash", "name", "scopes", "created_at", "expires_at"),
    "key_list": _sql(lambda: select(*(c for c in _K if c.name != "hash")).order_by(_K.created_at, _K.id)),
    "key_revoke": _sql(_key_revoke, "now", "id"),
}

STATEMENTS: dict[str, str] = {name: statement.sql() for name, statement in _ALL.items()}
