"""The one sweep: page by page through the queue until every row is as it should be."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from rag import messages, model_state, repairs, replacing, rewrite, store
from rag.bindings import Bindings
from rag.filterable import SCHEMA
from rag.jsonsafe import compact
from rag.logs import log
from rag.model_state import State
from rag.rows import CLAIM_MS, Row, now_ms

PAGE = 100
# A sweep that has not said anything for so long is dead; any request starts it again.
SILENT_MS = 2 * 60 * 1000
# Before the next pass looks whether the work of this one is done.
PASS_SECONDS = 5
_LONGEST_PATIENCE_SECONDS = 60
# Every document that is written meanwhile makes for another pass.
_REPLACING_PATIENCE_SECONDS = 15
_ROWS_PER_SECOND = 100
_LONGEST_PASS_SECONDS = 600


@dataclass(frozen=True)
class Run:
    """Progress of a sweep as kept in `meta`; `found` counts the rows of this pass."""

    run: int
    at: int
    after: str = ""
    found: int = 0
    passes: int = 0
    done: bool = False

    @property
    def cursor(self) -> str:
        return f"{self.run}:{self.after}"


def read(meta: Mapping[str, str]) -> Run | None:
    """The sweep that `meta` knows of, if there has been one."""
    return Run(**json.loads(meta["sweep"])) if "sweep" in meta else None


async def revive(b: Bindings, state: State) -> None:
    """Start a sweep where one is needed and none has been heard of for two minutes."""
    if not state.take_look() or not state.moves or not _needed(state):
        return
    last = read(state.meta)
    now = now_ms()
    if last is not None and now - last.at < SILENT_MS:
        return
    begun = compact(asdict(Run(run=now, at=now)))
    old = state.meta.get("sweep")
    mine = await (store.swap(b.db, "sweep", old, begun) if old else store.begin(b.db, "sweep", begun))
    if not mine:
        return
    log("info", "sweep started", mark=state.serving.mark, schema=SCHEMA)
    if b.queue is None:
        await _step(b, state, Run(run=now, at=now))
    else:
        await messages.send(b.queue, [messages.sweep(Run(run=now, at=now).cursor)])


def _needed(state: State) -> bool:
    flagged = "1" in (state.meta["?stale"], state.meta["?drift"], state.meta["?schema"])
    return flagged or state.incoming is not None or not state.complete


async def step(b: Bindings, cursor: str) -> None:
    """One page of a sweep: queue the work on its rows and the message for the next page. Raises Problem.

    A cursor of a sweep that has been started over is dropped, and so is one that reaches a Worker of another
    version than the operator wants: the first request that the wanted version answers starts a sweep again.
    """
    model_state.forget()
    state = await model_state.current(b)
    if not state.moves or state.status == "dims_mismatch":
        return
    last, now = read(state.meta), now_ms()
    number, _, after = cursor.partition(":")
    if not number:
        last = Run(run=now, at=now)
    elif last is None or str(last.run) != number:
        return
    await _step(b, state, replace(last, at=now, after=after, found=last.found if after else 0))


async def _step(b: Bindings, state: State, run: Run) -> None:
    cut = now_ms() - CLAIM_MS
    rows = await store.sweep_page(b.db, run.after, state.serving, state.other, SCHEMA, cut, PAGE)
    work = _work(rows, state)
    run = replace(run, found=run.found + len(rows), after=rows[-1].id if len(rows) == PAGE else "")
    following = None
    if run.after:
        following = messages.sweep(run.cursor)
    elif seconds := await _seconds_to_wait(b, state, run):
        run = replace(run, passes=run.passes + 1)
        following = messages.sweep(run.cursor, seconds)
    else:
        run = replace(run, done=True)
        log("info", "sweep finished", passes=run.passes)
    await store.put(b.db, "sweep", compact(asdict(run)))
    if b.queue is None:
        await _inline(b, state, work)
    else:
        await messages.send(b.queue, [*work, *([following] if following else [])])


async def _seconds_to_wait(b: Bindings, state: State, run: Run) -> int:
    """Until the next pass; 0 where every row of each space is as it should be, and the state says so."""
    if run.found or await _behind(b, state):
        return _pass_seconds(run, state)
    was_complete = state.complete
    await model_state.finish(b, state)
    if state.incoming is None:
        return 0
    # What `finish` has written is what the next pass takes over from.
    return await replacing.cut_over(b, state, state.incoming, SCHEMA) if was_complete else 1


async def _behind(b: Bindings, state: State) -> bool:
    for space in state.spaces:
        source = next((each for each in state.spaces if each != space), None)
        if (await store.progress(b.db, space, source, SCHEMA)).behind:
            return True
    return False


def _pass_seconds(run: Run, state: State) -> int:
    """Time for the queued work, or the next pass would queue most of it again."""
    longest = _LONGEST_PATIENCE_SECONDS if state.incoming is None else _REPLACING_PATIENCE_SECONDS
    patience = min(PASS_SECONDS << min(run.passes, 6), longest)
    return min(patience + run.found // _ROWS_PER_SECOND, _LONGEST_PASS_SECONDS)


def _work(rows: list[Row], state: State) -> list[messages.Message]:
    kinds: dict[messages.WorkKind, list[str]] = {"verify": [], "reindex": [], "backfill": []}
    wanted = (state.serving.mark, state.serving.never)
    for row in rows:
        if row.pending_at is not None or row.deleted_at is not None:
            kinds["verify"].append(row.id)
        else:
            kept = row.embed_model in wanted and state.other is None
            kinds["backfill" if kept else "reindex"].append(row.id)
    return [message for kind, ids in kinds.items() for message in messages.work(kind, ids)]


async def _inline(b: Bindings, state: State, work: list[messages.Message]) -> None:
    """Without a queue the page is worked on at once; the next one comes with a later request."""
    for message in work:
        body: dict[str, Any] = message["body"]
        if body["kind"] == "verify":
            await repairs.verify(b, state, body["ids"])
        else:
            outcome = await rewrite.rewrite(b, state, body["ids"])
            if outcome.unseen:
                await repairs.verify(b, state, sorted(outcome.unseen))
