"""A replacement that is killed at every single call that it makes, and goes on."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from infra.config import RagConfig
from tests.worker_core.loading import Version
from tests.worker_core.platform_bindings import Platform
from tests.worker_core.replacement import PROBES, TEXTS, Replacement, probe
from tests.worker_core.test_model_state import Deployment

Render = Callable[[RagConfig], Version]
FEW = {name: TEXTS[name] for name in ("d0", "d1", "d2", "d3")}
ASKED = {question: name for question, name in PROBES.items() if name in FEW}


class Killed(BaseException):
    """The process is gone: nothing after this point runs."""


def _kill_at(platform: Platform, when: str, call: int) -> list[str]:
    """Kill at the n-th call of anything from now on; the name of the call that it was."""
    made: list[str] = []
    left = [call]
    real = platform.call

    async def counted(name: str, work: Callable[[], Any]) -> Any:
        left[0] -= 1
        if left[0] == -1:
            made.append(name)
            if when == "before":
                raise Killed
            await real(name, work)
            raise Killed
        return await real(name, work)

    vars(platform)["call"] = counted
    return made


async def _run(stack: Replacement, both: Deployment) -> None:
    """From the beginning to the cut-over, as far as it comes."""
    both.look_again()
    await both.stats()
    stack.platform.pass_minutes(3)
    await both.drain()
    if not stack.spaces.cut_over_to(4):
        await stack.go_on(both, 3)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_killed_at_any_call_it_goes_on_and_loses_nothing(
    render_version: Render, platform: Platform, when: str
) -> None:
    stack = Replacement(render_version, platform)
    both = await stack.begun(FEW)
    begun = platform.meta()["space"], platform.rows()
    # One chain of messages only, the one that requests start: every run makes the same calls.
    platform.queued.clear()
    killed: set[str] = set()
    for call in range(200):
        made = _kill_at(platform, when, call)
        try:
            await _run(stack, both)
        except Killed:
            killed.update(made)
        vars(platform).pop("call")
        if not made:
            break
        # Messages that nobody has acknowledged may be gone as well: D1 alone knows what is left.
        platform.queued.clear()
        both.look_again()
        await probe(both, ASKED)
        for _ in range(4):
            await stack.go_on(both)
        assert stack.spaces.cut_over_to(4), made
        assert stack.contents("g4") == stack.contents("g3") == FEW, made
        await probe(both, ASKED)
        _start_over(stack, begun)
    else:
        raise AssertionError("it never came to an end")
    assert {"ai.run", "d1.all", "vectorize.upsert", "vectorize.getByIds", "queue.send"} <= killed


def _start_over(stack: Replacement, begun: tuple[str, list[dict[str, Any]]]) -> None:
    """Everything as it was before the first step of the replacement."""
    platform, (space, rows) = stack.platform, begun
    platform.vectorize.delete("g4")
    stack.create_new_index()
    platform.queued.clear()
    platform.sql.execute("DELETE FROM documents")
    for row in rows:
        names = ", ".join(row)
        marks = ", ".join("?" for _ in row)
        platform.sql.execute(f"INSERT INTO documents ({names}) VALUES ({marks})", list(row.values()))
    platform.sql.execute("DELETE FROM meta WHERE key = 'sweep'")
    platform.set_meta(space=space)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_writers_killed_at_any_call_leave_both_spaces_equal(
    render_version: Render, platform: Platform, when: str
) -> None:
    stack = Replacement(render_version, platform)
    both = await stack.begun(FEW)
    await both.drain()
    for turn, cut_over in enumerate((False, True)):
        if cut_over:
            await stack.cut_over(both)
        for call in range(40):
            made = _kill_at(platform, when, call)
            with suppress(Killed):
                await both.ingest({"d1": f"Comet {turn} {call}.", f"n{turn}-{call}": "New."})
                await both.version.core.delete_docs(both.b, ["d2"])
            vars(platform).pop("call")
            if not made:
                break
        else:
            raise AssertionError("it never came to an end")
        for _ in range(5):
            platform.pass_minutes(6)
            await stack.go_on(both)
        assert stack.contents("g3") == stack.contents("g4"), "after the sweep both hold the same"
        known = {row["id"] for row in platform.rows()}
        assert set(stack.contents("g3")) == known
        assert stack.contents("g3")["d1"] == f"Comet {turn} {call}.", "the last write was answered"
        assert "d2" not in known
        assert await both.ingest({"d2": TEXTS["d2"]}) == {"indexed"}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("end", ["finish", "abort"])
async def test_an_end_that_is_killed_at_any_call_is_made_by_the_next_request(
    render_version: Render, platform: Platform, end: str, when: str
) -> None:
    stack = Replacement(render_version, platform)
    both = await stack.begun(FEW)
    await stack.cut_over(both)
    last = stack.new() if end == "finish" else stack.old()
    stack.activate(last.config)
    under_way = platform.meta()["space"]
    for call in range(20):
        made = _kill_at(platform, when, call)
        last.look_again()
        with suppress(Killed):
            await probe(last, ASKED)
        vars(platform).pop("call")
        if not made or "ai.run" in made:
            break
        last.look_again()
        await probe(last, ASKED)
        assert not stack.under_way(), made
        assert {name: (await last.version.core.get_doc(last.b, name)).body for name in FEW} == FEW
        platform.set_meta(space=under_way)
    else:
        raise AssertionError("it never came to an end")
    assert call >= 3
