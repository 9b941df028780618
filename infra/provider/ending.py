"""The end of a replacement: whether it may be finished or aborted now, and whether an index may go."""

from __future__ import annotations

import math
from dataclasses import dataclass

from infra import replacement
from infra.provider import d1
from infra.provider.base import Call
from infra.provider.gate import KEY, Refusal, Space, Wish, embedding_setting, replacing_setting
from infra.replacement import EVERYWHERE_AFTER_MS, Spaces

SHOWN_IDS = 10


@dataclass(frozen=True)
class Progress:
    """Documents, those that one space lacks, and those of them that its model never takes."""

    total: int
    missing: int
    failed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Data:
    """A stack's database and what the Worker says in it of the spaces; None before the first document."""

    database: str
    spaces: Spaces | None
    desired: int | None

    @classmethod
    async def read(cls, call: Call, name: str) -> Data | None:
        """From the database of that name; None where it has no tables yet."""
        database = await d1.find_database(call, name)
        meta = await d1.meta(call, database) if database else None
        if database is None or not meta:
            return None
        desired = meta.get("desired_generation")
        return cls(database, Spaces.of(meta), None if desired is None else int(desired))

    @property
    def serving(self) -> int | None:
        """The generation that searches are answered from."""
        return self.spaces.serving.generation if self.spaces else None

    @property
    def taken_over(self) -> int:
        """When (ms) searches were given to the space that answers them now."""
        return self.spaces.taken_over if self.spaces else 0

    async def seconds_until_known(self, call: Call, since: int) -> int:
        """Until every isolate knows of a change of `space` at that time (ms); 0 where it does."""
        left = since + EVERYWHERE_AFTER_MS - await d1.now(call, self.database) if since else 0
        return max(0, math.ceil(left / 1000))

    async def progress(self, call: Call, generation: int) -> Progress | None:
        """How complete a generation is; None where the Worker knows nothing of it."""
        space = self.spaces.find(generation) if self.spaces else None
        if space is None:
            return None
        doing = f"count the documents that generation {generation} lacks"
        (row,) = await d1.query(call, self.database, doing, replacement.progress_sql(space.side))
        failed: list[d1.Row] = []
        if int(row["failed"] or 0):
            doing = f"list the documents that {space.model} can't embed"
            failed = await d1.query(call, self.database, doing, replacement.failed_sql(space.side))
        ids = tuple(str(each["id"]) for each in failed)
        return Progress(int(row["total"] or 0), int(row["missing"] or 0), ids)


async def unready(call: Call, database: str, deployed: Wish, wanted: Wish) -> Refusal | None:
    """Why the replacement that is under way can't end now in the way that the config asks for."""
    replaced = deployed.replaced
    if replaced is None or wanted.replaced is not None:
        return None
    data = await Data.read(call, database)
    if data is None or data.spaces is None:
        return None
    if wanted.space == deployed.space:
        return await _unfinished(call, data, deployed, replaced)
    return await _too_late(call, data, deployed, replaced)


async def _unfinished(call: Call, data: Data, deployed: Wish, replaced: Space) -> Refusal | None:
    new = deployed.space
    back = f"put {KEY}.replacing: {replacing_setting(replaced, deployed.strategy)} back"
    abort = f"or abort with {KEY}.embedding: {embedding_setting(replaced)}"
    progress = await data.progress(call, new.generation)
    if deployed.strategy == "reindex" and progress and progress.missing:
        reason = f"{_some_of(progress)} missing in generation {new.generation}"
        way_out = f"{back} and wait until `cfrag dims status` shows none"
        if progress.failed:
            reason += f"; {new.model} can't embed {_listed(progress.failed)}"
            way_out = f"{back}, and change or delete these, or let `cfrag dims finish --drop-failed` do it"
        return _refused(reason, f"{way_out}; {abort}", replaced)
    if data.serving != new.generation:
        reason = f"searches are still answered from generation {data.serving}"
        return _refused(reason, f"{back}, run `pulumi up` and finish a minute later; {abort}", replaced)
    if seconds := await data.seconds_until_known(call, data.taken_over):
        reason = f"an isolate of the Worker may still search generation {replaced.generation}"
        return _refused(reason, f"{back} and finish in {seconds} s", replaced)
    return None


async def _too_late(call: Call, data: Data, deployed: Wish, replaced: Space) -> Refusal | None:
    new = deployed.space
    if data.serving != new.generation:
        return None
    finish = f"finish with {KEY}.embedding: {embedding_setting(new)} and without replacing"
    progress = await data.progress(call, replaced.generation)
    if progress is None or deployed.strategy == "discard":
        reason = f"generation {replaced.generation} has no documents any more"
        return _refused(reason, finish, replaced, doing="aborted")
    if progress.missing:
        reason = f"{_some_of(progress)} missing in generation {replaced.generation}"
        back = f"put {KEY}.replacing and the new embedding back and try again in a minute"
        return _refused(reason, f"{back}; or {finish}", replaced, doing="aborted")
    return None


@dataclass(frozen=True)
class Hold:
    """Why the index of a generation can't be deleted yet; `passing` where the Worker is about to end it."""

    reason: str
    passing: bool = False


async def hold(call: Call, database: str, generation: int) -> Hold | None:
    """What keeps the index of a generation; None where all documents live in another one."""
    data = await Data.read(call, database)
    if data is None or data.spaces is None:
        return Hold("the stack's database doesn't say where its documents live")
    serving = data.spaces.serving.generation
    if generation in (serving, data.desired):
        moving = data.desired not in (None, generation)
        return Hold(f"the stack's documents live in generation {generation}", passing=moving)
    progress = await data.progress(call, serving)
    if progress and progress.missing:
        return Hold(f"{_some_of(progress)} missing in generation {serving}", passing=True)
    if await data.seconds_until_known(call, data.spaces.ended):
        return Hold(f"an isolate of the Worker may still search generation {generation}", passing=True)
    return None


def _refused(reason: str, way_out: str, replaced: Space, doing: str = "finished") -> Refusal:
    return Refusal("replacing", f"the replacement can't be {doing}: {reason}", way_out, replaced.index)


def _some_of(progress: Progress) -> str:
    verb = "is" if progress.missing == 1 else "are"
    return f"{progress.missing:,} of {documents(progress.total)} {verb}"


def _listed(ids: tuple[str, ...]) -> str:
    more = f" and {len(ids) - SHOWN_IDS:,} more" if len(ids) > SHOWN_IDS else ""
    return ", ".join(ids[:SHOWN_IDS]) + more


def documents(count: int) -> str:
    """A number of documents in words."""
    return "1 document" if count == 1 else f"{count:,} documents"
