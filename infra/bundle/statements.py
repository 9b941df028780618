"""Every SQL statement of the Worker, as SQLAlchemy expressions compiled for D1 when a bundle is rendered.

A statement binds numbered parameters in the order of its `Statement.params`. Whatever may be many is one
parameter, a JSON array read with `json_each`, so no statement comes near D1's 100 bound parameters.
Statements about what one space holds exist twice, `<name>_next` for the columns of the second side.
"""

from collections.abc import Callable

from sqlalchemy import func, select, update
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.sql.expression import ClauseElement

from infra.bundle import sweeps, writes
from infra.bundle.expressions import EACH, MAIN, NEXT, NOW, ROW, D, Side, Statement, number, param
from infra.bundle.tables import API_KEYS

_K = API_KEYS.c


def _rows() -> ClauseElement:
    return select(*ROW).where(D.id.in_(select(EACH.c.value).select_from(EACH)))


def _list() -> ClauseElement:
    page = select(*ROW).where(D.id > param("after"), D.deleted_at.is_(None))
    return page.order_by(D.id).limit(number("most"))


def _recent() -> ClauseElement:
    newest = select(*ROW).where(D.deleted_at.is_(None), D.indexed_at.is_not(None))
    return newest.order_by(D.indexed_at.desc()).limit(number("most"))


def _key_add() -> ClauseElement:
    names = ("id", "hash", "name", "scopes", "created_at", "expires_at")
    return insert(API_KEYS).values({name: param(name) for name in names})


def _key_revoke() -> ClauseElement:
    first = func.coalesce(_K.revoked_at, NOW)
    public = [column for column in _K if column.name != "hash"]
    return update(API_KEYS).values(revoked_at=first).where(_K.id == param("id")).returning(*public)


def _sql(expression: ClauseElement, *params: str) -> Statement:
    return Statement(expression, params)


def _sided(name: str, make: Callable[[Side, Side], ClauseElement], *params: str) -> dict[str, Statement]:
    """A statement for each side, given that side and the other one."""
    return {
        name: Statement(make(MAIN, NEXT), params),
        f"{name}_next": Statement(make(NEXT, MAIN), params),
    }


_ALL: dict[str, Statement] = {
    **_sided(
        "claim", lambda own, other: writes.claim(own, other, forced=False), "items", "now", "model", "desired"
    ),
    **_sided(
        "claim_forced", lambda own, other: writes.claim(own, other, forced=True), "items", "now", "model"
    ),
    **_sided("commit", writes.commit, "items", "now", "model", "schema", "space", "other"),
    **_sided("rewritten", lambda own, _: writes.rewritten(own), "items", "now", "model", "schema", "space"),
    **_sided("lost", lambda own, _: writes.lost(own), "items", "now"),
    **_sided("lease", lambda own, _: writes.lease(own), "items", "now", "model", "cut"),
    **_sided("verified", writes.verified, "items", "space"),
    **_sided("failed", lambda own, _: writes.failed(own), "items", "model", "space"),
    **_sided("clear", lambda own, _: writes.clear(own), "after", "most"),
    **_sided("discard", lambda own, _: writes.discard(own), "after", "most", "space"),
    "release": _sql(writes.release(), "items"),
    "release_new": _sql(writes.release_new(), "items"),
    "tombstone": _sql(writes.tombstone(), "items", "now"),
    "drop": _sql(writes.drop(), "items", "cut", "reached"),
    "rows": _sql(_rows(), "items"),
    "list_rows": _sql(_list(), "after", "most"),
    "recent_rows": _sql(_recent(), "most"),
    **_sided("counts", lambda own, _: sweeps.counts(own)),
    **_sided("sweep_page", sweeps.sweep_page, "after", "model", "other", "schema", "cut", "most"),
    **_sided("progress", sweeps.progress, "model", "other", "schema"),
    **_sided("cut_over", sweeps.cut_over, "old", "new", "model", "schema"),
    "state": _sql(sweeps.state(), "cut", "schema"),
    "adopt_schema": _sql(sweeps.adopt_schema(), "schema", "old"),
    "meta_put": _sql(sweeps.meta_put(), "key", "value"),
    "meta_swap": _sql(sweeps.meta_swap(), "key", "old", "new"),
    "meta_begin": _sql(sweeps.meta_begin(), "key", "value"),
    "meta_add": _sql(sweeps.meta_add(), "key", "amount"),
    "meta_drop": _sql(sweeps.meta_drop(), "key"),
    "key_by_hash": _sql(select(API_KEYS).where(_K.hash == param("hash")), "hash"),
    "key_add": _sql(_key_add(), "id", "hash", "name", "scopes", "created_at", "expires_at"),
    "key_list": _sql(select(*(c for c in _K if c.name != "hash")).order_by(_K.created_at, _K.id)),
    "key_revoke": _sql(_key_revoke(), "now", "id"),
}

STATEMENTS: dict[str, str] = {name: statement.sql() for name, statement in _ALL.items()}
