"""The steps of a replacement: begin, cut over, end; each is one compare-and-set of `space` in `meta`.

From the first to the last, what is written goes to both spaces, and the sweep copies whatever one of them
lacks from the other. So each step can be killed, repeated, or gone back on.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from rag import spaces, store, vectors
from rag import statements as sql
from rag.bindings import Bindings
from rag.logs import log
from rag.rows import now_ms
from rag.spaces import Known, Side, Space

if TYPE_CHECKING:
    from rag.model_state import State

# After so long every isolate has looked into `meta`, and writes to both spaces.
KNOWN_AFTER_SECONDS = 60.0
# The writes looked at to tell whether the new index shows all of them: it processes them in order.
_NEWEST = 500
_AT_ONCE = 100
# Rows changed by one statement, and pages worked off by one look.
_PAGE = 2_000
_PAGES = 20

# Until writes that can't be seen yet are looked for again.
_UNSEEN_SECONDS = 5


async def begin(b: Bindings, known: Known, own: Space, schema: str) -> bool:
    """Add the Worker's own space as the one that takes over; whether `meta` is to be read again."""
    if known.other is not None:
        return await end(b, known, known.serving, schema)
    side, now = known.serving.following_side, now_ms()
    # What is left in these columns of an earlier space would be taken for this one's.
    if not await _cleared(b, side):
        return False
    new = _entering(own, side, now)
    if await store.swap(b.db, "space", known.text, spaces.text(known.serving, new)):
        log("warn", "the space is being replaced", old=known.serving.described(), new=new.described())
        await store.run(b.db, (sql.META_DROP, "sweep"))
    return True


def _entering(own: Space, side: Side, now: int) -> Space:
    return replace(own, side=side, id=f"@g{own.generation}.{now}", began=now)


async def discard(b: Bindings, known: Known, own: Space) -> bool:
    """Put the Worker's own, empty space in the place of the old one; whether `meta` is to be read again."""
    if known.other is not None:
        await store.swap(b.db, "space", known.text, spaces.text(known.serving))
        return True
    side = known.serving.following_side
    if not await _cleared(b, side):
        return False
    new = _entering(own, side, now_ms())
    if await store.swap(b.db, "space", known.text, spaces.text(new, discarding=True)):
        log("warn", "the space is discarded with its documents", old=known.serving.described())
    return True


async def discard_rest(b: Bindings, known: Known) -> bool:
    """Forget documents of the discarded space; whether that is done and `meta` has changed."""
    after = ""
    for _ in range(_PAGES):
        done = await store.discard(b.db, known.serving, after, _PAGE)
        if not done:
            return await store.swap(b.db, "space", known.text, spaces.text(known.serving, known.other))
        after = done[-1]
    return False


async def cut_over(b: Bindings, state: "State", incoming: Space, schema: str) -> int:
    """Answer from the new space, if it lacks nothing; else the seconds after which to try again.

    Not before every isolate writes to both spaces, and the new index shows what was written last. 0 where
    that is done, and where documents that the new model never takes are in the way: nobody would find them.
    """
    known = spaces.read(state.meta)
    found = await store.progress(b.db, incoming, state.serving, schema)
    if found.failed:
        log("warn", "documents that the new model never takes hold up a replacement", documents=found.failed)
        return 0
    early = KNOWN_AFTER_SECONDS - (now_ms() - incoming.began) / 1000
    if early > 0:
        return int(early) + 1
    if known is None or found.behind or not await _visible(b, incoming):
        return _UNSEEN_SECONDS
    # From now on the old space is the one that not every isolate knows to be the other.
    new = spaces.text(incoming, replace(state.serving, began=now_ms()))
    if not await store.cut_over(b.db, known.text, new, incoming, schema):
        return _UNSEEN_SECONDS
    log("warn", "searches are answered from the new space", space=incoming.described(), documents=found.total)
    return 0


async def _visible(b: Bindings, space: Space) -> bool:
    """Whether the newest writes can be seen in the index, and so all before them."""
    rows = [row for row in await store.recent(b.db, _NEWEST, space) if row.content_hash is not None]
    for at in range(0, len(rows), _AT_ONCE):
        page = rows[at : at + _AT_ONCE]
        found = await vectors.get(b.bound(space.generation), [row.id for row in page])
        if any(row.id not in found or found[row.id].content_hash != row.content_hash for row in page):
            return False
    return True


async def end(b: Bindings, known: Known, kept: Space, schema: str) -> bool:
    """Forget the space that is not kept, once nothing is in it alone; whether `meta` is to be read again.

    By a Worker whose config names no replacement any more: after a finish the new space, after an abort the
    old one is kept.
    """
    left = known.serving if kept == known.other else known.other
    if left is None:
        return False
    found = await store.progress(b.db, kept, left, schema)
    if found.stranded:
        log("error", "documents are in the other space only: put `replacing` back", documents=found.stranded)
        return False
    # Until every isolate has looked, some still search the space that answered: its index has to stay.
    ended = now_ms() if left == known.serving else known.ended
    if await store.swap(b.db, "space", known.text, spaces.text(kept, ended=ended)):
        log("warn", "the replacement has ended", kept=kept.described(), left=left.described())
        await _cleared(b, left.side)
    return True


async def _cleared(b: Bindings, side: Side) -> bool:
    """Forget what the columns of a side hold; False while there is more than one look can do."""
    after = ""
    for _ in range(_PAGES):
        done = await store.clear(b.db, side, after, _PAGE)
        if not done:
            return True
        after = done[-1]
    return False
