"""Documents of which D1 and Vectorize may say different things: noticed, verified later, counted."""

from collections.abc import Sequence

from rag import store
from rag.bindings import Bindings
from rag.logs import log
from rag.settings import GET_IDS
from rag.timing import span

# Not before claims of the same moment are over and their writes can be seen.
VERIFY_DELAY_SECONDS = store.CLAIM_MS // 1000


async def lost(b: Bindings, ids: Sequence[str]) -> None:
    """The commit of these ids came too late: which of the writes is in the index is to be found out."""
    log("warn", "a commit was overtaken by another write", documents=len(ids))
    await store.lost(b.db, ids)
    await ask(b, ids)


async def ask(b: Bindings, ids: Sequence[str]) -> None:
    """Have these ids verified through the queue; the mark in D1 makes sure of it where this fails."""
    if b.queue is None:
        return
    messages = [
        {
            "body": {"kind": "verify", "ids": list(ids[at : at + GET_IDS]), "_reindexFromQueue": True},
            "delaySeconds": VERIFY_DELAY_SECONDS,
        }
        for at in range(0, len(ids), GET_IDS)
    ]
    try:
        async with span("queue"):
            await b.queue.sendBatch(messages)
    except Exception as error:  # noqa: BLE001 - the write itself has succeeded
        log("warn", "a verification could not be queued; the sweep will do it", error=str(error)[:200])
