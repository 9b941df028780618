"""Statements that claim documents, write down what became of them, and forget them.

Each is made for one side: the space that decides, with the columns of the `other` one beside it.
"""

from typing import Any

from sqlalchemy import (
    and_,
    case,
    delete,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.sql.expression import ClauseElement

from infra.bundle.expressions import (
    CUT,
    EACH,
    MAIN,
    MODEL,
    NEXT,
    NOW,
    ROW,
    SCHEMA,
    UNUSED,
    D,
    Side,
    contested,
    failed_mark,
    item,
    number,
    param,
    same_claims,
)
from infra.bundle.tables import DOCUMENTS


def claim(own: Side, other: Side, *, forced: bool) -> ClauseElement:
    """Claim documents for writing; a row comes back for each that has to be written, none if unchanged."""
    rows = select(item("id"), NOW, item("hash"), NOW, item("active")).select_from(EACH).where(true())
    statement = insert(DOCUMENTS).from_select(["id", "seq", "pending_hash", "pending_at", "active"], rows)
    new = statement.excluded
    differs = or_(
        own.hash.is_distinct_from(new.pending_hash),
        # Neither this Worker's model nor the operator's: an older Worker leaves what a newer has embedded.
        and_(own.model.is_distinct_from(MODEL), own.model.is_distinct_from(param("desired"))),
        D.active != new.active,
        D.pending_at.is_not(None),
        D.deleted_at.is_not(None),
    )
    alone = or_(D.pending_hash.is_(None), D.pending_hash == new.pending_hash)
    return statement.on_conflict_do_update(
        index_elements=[D.id],
        set_={
            "seq": D.seq + 1,
            "pending_hash": case(
                (alone, new.pending_hash), else_=literal_column("'+'").concat(new.pending_hash)
            ),
            "pending_at": new.pending_at,
            own.model.name: case((own.model == MODEL, own.model), else_=null()),
            **other.nothing,
        },
        where=None if forced else differs,
    ).returning(*ROW)


def commit(own: Side, other: Side) -> ClauseElement:
    """Write down what the claims have written; a claim whose id does not come back has lost."""
    both = and_(other.still(param("other")), param("other") != UNUSED)
    held = case((item("nextHash").is_(None), null()), else_=SCHEMA)
    return (
        update(DOCUMENTS)
        .values(
            {
                own.hash: item("hash"),
                # Two writes at a time may have reached the index in either order: pending until verified.
                D.pending_hash: case((contested(D.pending_hash), D.pending_hash), else_=null()),
                D.pending_at: case((contested(D.pending_hash), NOW), else_=null()),
                D.indexed_at: NOW,
                D.active: item("active"),
                own.model: MODEL,
                own.rev: SCHEMA,
                other.hash: case((both, item("nextHash")), else_=null()),
                other.model: case((both, item("nextModel")), else_=null()),
                other.rev: case((both, held), else_=null()),
                D.deleted_at: null(),
                D.lease_at: null(),
            }
        )
        .where(D.id == item("id"), D.seq == item("seq"), own.still(param("space")))
        .returning(D.id)
    )


def rewritten(own: Side) -> ClauseElement:
    """Write down, under a lease, that one space holds the stored content again."""
    return (
        update(DOCUMENTS)
        .values(
            {own.hash: item("hash"), own.model: MODEL, own.rev: SCHEMA, D.indexed_at: NOW, D.lease_at: null()}
        )
        .where(D.id == item("id"), D.seq == item("seq"), own.still(param("space")))
        .returning(D.id)
    )


def lost(own: Side) -> ClauseElement:
    """Mark documents whose commit lost, so that they are verified whatever happens to the message."""
    statement = insert(DOCUMENTS).from_select(
        ["id", "seq", "active", "pending_hash", "pending_at", "deleted_at"],
        select(EACH.c.value, NOW, literal_column("0"), literal_column("'+'"), NOW, NOW)
        .select_from(EACH)
        .where(true()),
    )
    mark = literal_column("'+'").concat(func.coalesce(own.hash, literal_column("''")))
    return statement.on_conflict_do_update(
        index_elements=[D.id],
        set_={
            "pending_hash": func.coalesce(D.pending_hash, mark),
            "pending_at": func.coalesce(D.pending_at, statement.excluded.pending_at),
        },
    )


def release() -> ClauseElement:
    """Give up claims of which nothing has been written."""
    kept = contested(D.pending_hash)
    return (
        update(DOCUMENTS)
        .values(
            pending_hash=case((kept, D.pending_hash), else_=null()),
            pending_at=case((kept, D.pending_at), else_=null()),
        )
        .where(same_claims())
    )


def release_new() -> ClauseElement:
    never = and_(
        MAIN.hash.is_(None),
        NEXT.hash.is_(None),
        D.indexed_at.is_(None),
        D.deleted_at.is_(None),
        D.lease_at.is_(None),
    )
    return delete(DOCUMENTS).where(same_claims(), never, ~contested(D.pending_hash))


def tombstone() -> ClauseElement:
    """Mark ids as deleted, known or not; an earlier tombstone keeps its time."""
    rows = select(EACH.c.value, NOW, literal_column("0"), NOW).select_from(EACH).where(true())
    statement = insert(DOCUMENTS).from_select(["id", "seq", "active", "deleted_at"], rows)
    changes: dict[str, Any] = {
        "seq": D.seq + 1,
        "deleted_at": func.coalesce(D.deleted_at, statement.excluded.deleted_at),
        # What was being written may still arrive, but it is not wanted any more.
        "pending_hash": case((D.pending_hash.is_not(None), literal_column("'+'")), else_=null()),
        **MAIN.nothing,
        **NEXT.nothing,
    }
    return statement.on_conflict_do_update(index_elements=[D.id], set_=changes).returning(*ROW)


def drop() -> ClauseElement:
    """Forget tombstones that have reached every space, unless a write begun before may still arrive there."""
    settled = or_(D.pending_at.is_(None), D.pending_at < CUT)
    everywhere = (MAIN.reached(), NEXT.reached())
    return delete(DOCUMENTS).where(same_claims(), D.deleted_at.is_not(None), settled, *everywhere)


def lease(own: Side) -> ClauseElement:
    """Take documents that nobody has touched since they were read, to write their content again."""
    free = and_(D.pending_at.is_(None), D.deleted_at.is_(None), or_(D.lease_at.is_(None), D.lease_at < CUT))
    kept = case((own.model == MODEL, own.model), else_=null())
    return (
        update(DOCUMENTS)
        .values({D.seq: D.seq + 1, D.lease_at: NOW, own.model: kept})
        .where(same_claims(), free)
        .returning(*ROW)
    )


def verified(own: Side, other: Side) -> ClauseElement:
    """Write down what the index was found to hold: a hash, or null where nothing is known to be there.

    What was written there was written to the other space too, in an order that is not known; only where
    nothing was under way the other space is still good for what is gone from this one.
    """
    found = item("hash")
    kept = and_(found.is_(None), D.pending_at.is_(None))
    return (
        update(DOCUMENTS)
        .values(
            {
                D.seq: D.seq + 1,
                own.hash: found,
                D.pending_hash: null(),
                D.pending_at: null(),
                D.active: func.coalesce(item("active"), D.active),
                own.model: case((found.is_(None), null()), else_=own.model),
                D.deleted_at: null(),
                **{
                    column: case((kept, column), else_=null())
                    for column in (other.hash, other.model, other.rev)
                },
            }
        )
        .where(D.id == item("id"), D.seq == item("seq"), own.still(param("space")))
        .returning(D.id)
    )


def failed(own: Side) -> ClauseElement:
    """Mark documents that the model never takes, so that no sweep tries them again."""
    return (
        update(DOCUMENTS)
        .values({own.model: failed_mark(MODEL)})
        .where(same_claims(), own.still(param("space")))
    )


def clear(own: Side) -> ClauseElement:
    """Forget what a space held that is in use no more, page by page; the ids done come back."""
    left = or_(own.hash.is_not(None), own.model.is_not(None), own.rev.is_not(None))
    page = select(D.id).where(D.id > param("after"), left).order_by(D.id).limit(number("most"))
    unused = func.coalesce(own.member("ids"), UNUSED) == UNUSED
    return update(DOCUMENTS).values(own.nothing).where(D.id.in_(page), unused).returning(D.id)


def discard(own: Side) -> ClauseElement:
    """Forget documents whose content was in a discarded space, page by page; the ids done come back."""
    gone = and_(own.hash.is_(None), D.pending_at.is_(None), D.deleted_at.is_(None))
    page = select(D.id).where(D.id > param("after"), gone).order_by(D.id).limit(number("most"))
    return delete(DOCUMENTS).where(D.id.in_(page), own.still(param("space"))).returning(D.id)
