"""Statements that find what a sweep has to do and say how far it is, and those that move `meta`."""

from typing import Any

from sqlalchemy import (
    ColumnElement,
    and_,
    case,
    cast,
    delete,
    func,
    literal_column,
    or_,
    select,
    types,
    union_all,
    update,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.sql.expression import ClauseElement

from infra.bundle.expressions import (
    CUT,
    MAIN,
    MODEL,
    NEXT,
    OTHER,
    ROW,
    SCHEMA,
    D,
    M,
    Side,
    failed_mark,
    number,
    param,
)
from infra.bundle.tables import DOCUMENTS, META

_REPLACING = OTHER != ""


def _to_do(side: Side, source: Side, mark: Any) -> ColumnElement[bool]:
    """What this space lacks and the `source` holds, or holds in another making than the wanted one."""
    missing = and_(
        side.hash.is_(None), source.hash.is_not(None), side.model.is_distinct_from(failed_mark(mark))
    )
    return or_(and_(side.hash.is_not(None), side.unlike(mark)), and_(_REPLACING, missing))


def sweep_page(own: Side, other: Side) -> ClauseElement:
    """The next rows that a sweep has to see to: abandoned writes, tombstones, vectors of another making."""
    differ = and_(own.hash.is_not(None), other.hash.is_not(None), own.hash != other.hash)
    behind = or_(_to_do(own, other, MODEL), and_(_REPLACING, or_(_to_do(other, own, OTHER), differ)))
    settled = and_(D.deleted_at.is_(None), D.pending_at.is_(None))
    wanted = or_(D.pending_at < CUT, D.deleted_at < CUT, and_(settled, behind))
    page = select(*ROW).where(D.id > param("after"), wanted).order_by(D.id)
    return page.limit(number("most"))


def _known(own: Side, other: Side, replacing: ColumnElement[bool] | None = None) -> ColumnElement[bool]:
    """Live documents of which something is stored or being written."""
    there = other.hash.is_not(None) if replacing is None else and_(replacing, other.hash.is_not(None))
    return and_(D.deleted_at.is_(None), or_(own.hash.is_not(None), D.pending_at.is_not(None), there))


def _sum(condition: ColumnElement[bool], name: str) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0).label(name)


def progress(own: Side, other: Side) -> ClauseElement:
    """All documents; those to be brought to the wanted state here; never taken; kept elsewhere only."""
    never = and_(own.hash.is_(None), own.model == failed_mark(MODEL))
    behind = and_(~func.coalesce(never, literal_column("0")), or_(own.unlike(MODEL), own.hash.is_(None)))
    return select(
        func.count().label("total"),
        _sum(behind, "behind"),
        _sum(own.model == failed_mark(MODEL), "failed"),
        _sum(and_(own.hash.is_(None), D.pending_at.is_(None)), "stranded"),
    ).where(_known(own, other, _REPLACING))


def missing(own: Side, other: Side) -> ClauseElement:
    """For tools: all documents, those that this space does not hold, and of these those it never takes."""
    return select(
        func.count().label("total"),
        _sum(own.hash.is_(None), "missing"),
        _sum(and_(own.hash.is_(None), func.substr(own.model, 1, 1) == "!"), "failed"),
    ).where(_known(own, other))


def never_taken(own: Side) -> ClauseElement:
    """For tools: documents that this space's model never takes."""
    refused = and_(own.hash.is_(None), own.model >= "!", own.model < '"')
    return select(D.id).where(D.deleted_at.is_(None), refused).order_by(D.id).limit(1000)


def cut_over(own: Side, other: Side) -> ClauseElement:
    """Exchange the spaces of a replacement, if at this moment the new one, `own`, lacks no document."""
    complete = and_(
        own.hash.is_not(None),
        own.model.is_not_distinct_from(MODEL),
        own.rev.is_not_distinct_from(SCHEMA),
        D.pending_at.is_(None),
        or_(other.hash.is_(None), other.hash == own.hash),
    )
    lacking = select(D.id).where(_known(own, other), ~complete).exists()
    return (
        update(META)
        .values(value=param("new"))
        .where(M.key == "space", M.value == param("old"), ~lacking)
        .returning(M.key)
    )


def counts(own: Side) -> ClauseElement:
    """Documents by the mark of their vectors."""
    pending = _sum(or_(D.pending_at.is_not(None), own.hash.is_(None)), "pending")
    model = own.model.label("embed_model")
    grouped = select(model, func.count().label("documents"), pending)
    return grouped.where(D.deleted_at.is_(None)).group_by(own.model).order_by(own.model)


def state() -> ClauseElement:
    """All of `meta`, and three rows more that say whether there is something to repair, embed or rewrite."""
    return union_all(
        select(M.key, M.value),
        _flag("stale", select(D.id).where(D.pending_at < CUT), select(D.id).where(D.deleted_at < CUT)),
        _flag("drift", *_drifted(MAIN, NEXT), *_drifted(NEXT, MAIN)),
        _flag("schema", *_rewritable(MAIN), *_rewritable(NEXT)),
    )


def _flag(name: str, *found: Any) -> Any:
    any_of = or_(*(each.exists() for each in found))
    return select(literal_column(f"'?{name}'"), case((any_of, "1"), else_="0"))


def _in_space(side: Side, *conditions: Any) -> Any:
    """Rows by what is to be so in a space that `meta` knows of; without one nothing is read of the table."""
    space = and_(M.key == "space", side.member("marks", M.value).is_not(None))
    return select(D.id).select_from(META.join(DOCUMENTS, literal_column("1"))).where(space, *conditions)


def _drifted(side: Side, other: Side) -> list[Any]:
    mark = side.member("marks", M.value)
    never = failed_mark(mark)
    settled = and_(D.deleted_at.is_(None), D.pending_at.is_(None))
    there = and_(other.member("marks", M.value).is_not(None), other.hash.is_not(None))
    return [
        # "<" or ">" instead of "<>", so that the index answers.
        _in_space(side, side.model < never, side.model.is_not(None)),
        _in_space(side, side.model > never, side.model < mark),
        _in_space(side, side.model > mark),
        _in_space(side, side.model.is_(None), settled, or_(side.hash.is_not(None), there)),
    ]


def _rewritable(side: Side) -> list[Any]:
    stored = and_(side.hash.is_not(None), D.pending_at.is_(None))
    return [
        _in_space(side, side.rev < SCHEMA),
        _in_space(side, side.rev > SCHEMA),
        _in_space(side, side.rev.is_(None), stored),
    ]


def adopt_schema() -> ClauseElement:
    """Rows that were in a larger set of metadata indexes are in all that are left of it."""
    old = param("old")
    values = {side.rev: case((side.rev == old, SCHEMA), else_=side.rev) for side in (MAIN, NEXT)}
    return update(DOCUMENTS).values(values).where(or_(MAIN.rev == old, NEXT.rev == old))


def meta_put() -> ClauseElement:
    statement = insert(META).values(key=param("key"), value=param("value"))
    return statement.on_conflict_do_update(index_elements=[M.key], set_={"value": statement.excluded.value})


def meta_swap() -> ClauseElement:
    """Compare and set: a row comes back if the value was still the old one."""
    return (
        update(META)
        .values(value=param("new"))
        .where(M.key == param("key"), M.value == param("old"))
        .returning(M.key)
    )


def meta_begin() -> ClauseElement:
    """Set what has no value yet; a row comes back if this call has set it."""
    statement = insert(META).values(key=param("key"), value=param("value"))
    return statement.on_conflict_do_nothing(index_elements=[M.key]).returning(M.key)


def meta_add() -> ClauseElement:
    # Numbers reach D1 as floats.
    amount = cast(number("amount"), types.Integer())
    statement = insert(META).values(key=param("key"), value=cast(amount, types.Text()))
    total = cast(cast(M.value, types.Integer()) + amount, types.Text())
    return statement.on_conflict_do_update(index_elements=[M.key], set_={"value": total})


def meta_drop() -> ClauseElement:
    return delete(META).where(M.key == param("key"))
