"""Going back on a replacement, discarding a space, and beginning again after either."""

from collections.abc import Callable
from typing import Any

import pytest

from infra.config import RagConfig
from tests.worker_core.loading import Version
from tests.worker_core.platform_bindings import Platform
from tests.worker_core.replacement import BASE, M3, TEXTS, Replacement, probe
from tests.worker_core.test_model_state import Deployment

Render = Callable[[RagConfig], Version]


@pytest.fixture
def stack(render_version: Render, platform: Platform) -> Replacement:
    return Replacement(render_version, platform)


async def _write(both: Deployment) -> dict[str, str]:
    """Change some of the documents; what there is then."""
    assert await both.ingest({"d1": "The comet again, rewritten.", "late": "A late passage."}) == {"indexed"}
    await both.version.core.delete_docs(both.b, ["d2"])
    return {name: text for name, text in TEXTS.items() if name != "d2"} | {
        "d1": "The comet again, rewritten.",
        "late": "A late passage.",
    }


async def _contents(of: Deployment, names: dict[str, str]) -> dict[str, str]:
    return {name: (await of.version.core.get_doc(of.b, name)).body for name in names}


@pytest.mark.parametrize("when", ["before the copy", "half way", "before the cut-over", "after the cut-over"])
async def test_an_abort_at_any_time_keeps_what_was_written_meanwhile(
    stack: Replacement, platform: Platform, when: str
) -> None:
    both = await stack.begun()
    await both.stats()
    if when == "half way":
        platform.faults.before["vectorize.upsert"] = [RuntimeError("Network connection lost.")] * 3
        await both.version.consumer.consume(both.b, _batch(platform))
    elif when != "before the copy":
        await both.drain()
    if when == "after the cut-over":
        await stack.cut_over(both)
    expected = await _write(both)

    back = stack.old()
    assert (await back.search("The comet again, rewritten."))[0].id == "d1", "before the activation too"
    stack.activate(stack.old_config)
    await back.drain()
    assert (stack.spaces.serving.generation, stack.spaces.other) == (3, None)
    # Where the new space has answered, its index has to stay until every isolate knows better.
    assert (stack.spaces.ended > 0) is (when == "after the cut-over")
    platform.vectorize.delete("g4")
    back.look_again()
    stats = await back.stats()
    assert (stats.state, stats.generation, stats.documents.total) == ("ok", 3, len(expected))
    assert await _contents(back, expected) == stack.contents("g3") == expected
    assert await back.ingest(expected) == {"skipped"}
    assert {(row["next_hash"], row["next_model"]) for row in platform.rows()} == {(None, None)}


def _batch(platform: Platform) -> Any:
    from tests.worker_core.platform_bindings import Batch, Message

    messages = [Message(each["body"]) for each in platform.queued]
    platform.queued.clear()
    return Batch(messages)


async def test_what_the_old_index_did_not_take_is_copied_back_before_an_abort_ends(
    stack: Replacement, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = await stack.begun()
    await stack.cut_over(both)
    upsert = platform.vectorize.write

    def refusing(name: str, *given: Any) -> Any:
        if name == "g3":
            raise RuntimeError("VECTOR_UPSERT_ERROR (code = 40041): Too Many Requests")
        return upsert(name, *given)

    with monkeypatch.context() as patch:
        patch.setattr(platform.vectorize, "write", refusing)
        await both.ingest({"late": "Only in the new index."})
    early = stack.old()
    stack.activate(stack.old_config)
    await early.drain()
    assert stack.under_way(), "a document is in the other space only: nothing is forgotten"
    assert "left in generation 4 only" in (await early.stats()).advice

    stack.activate(stack.new_config)
    await stack.go_on(both)
    assert stack.contents("g3") == stack.contents("g4") == TEXTS | {"late": "Only in the new index."}
    stack.activate(stack.old_config)
    early.look_again()
    await early.drain()
    await early.stats()
    assert not stack.under_way()
    assert (await early.version.core.get_doc(early.b, "late")).body == "Only in the new index."


async def test_after_an_abort_a_replacement_begins_with_nothing(
    stack: Replacement, platform: Platform
) -> None:
    both = await stack.begun()
    await both.drain()
    in_flight = stack.both()
    await in_flight.stats()
    stack.activate(stack.old_config)
    back = stack.old()
    await back.drain()
    platform.vectorize.delete("g4")

    stack.create_new_index()
    again = stack.both()
    stack.activate(stack.new_config)
    stats = await again.stats()
    assert (stats.state, stats.progress.done, stats.progress.total) == ("replacing", 0, len(TEXTS))
    # An isolate of the first attempt knows nothing of its end.
    await in_flight.ingest({"d1": "Written by an isolate of the first attempt."})
    await again.drain()
    platform.pass_minutes(6)
    await stack.cut_over(again)
    assert stack.contents("g4") == TEXTS | {"d1": "Written by an isolate of the first attempt."}
    marks = {row["next_model"] for row in platform.rows()}
    assert marks == {stack.spaces.serving.mark}


async def test_a_discarded_space_is_empty_at_once_and_its_documents_are_gone(
    stack: Replacement, platform: Platform
) -> None:
    old = stack.old()
    stack.activate(stack.old_config)
    await old.ingest(TEXTS)
    await old.drain()
    await old.stats()
    stack.create_new_index()
    stack.strategy = "discard"
    discarding = stack.both()
    assert await discarding.search("comet") == []
    stats = await discarding.stats()
    assert (stats.state, stats.generation, stats.documents.total) == ("ok", 4, 0)
    assert (await discarding.version.core.list_docs(discarding.b, None, 10, False)).documents == []
    assert platform.rows() == []

    # The version before may still be running, and may have written.
    assert await old.ingest({"stray": "Written in flight."}) == {"indexed"}
    assert await discarding.ingest({"d1": TEXTS["d1"]}) == {"indexed"}
    stack.activate(stack.new_config)
    await stack.go_on(discarding)
    await stack.go_on(discarding)
    await probe(discarding, {"which way does a comet point": "d1"})
    assert stack.contents("g4") == {"d1": TEXTS["d1"]}
    assert [row["id"] for row in platform.rows()] == ["d1"]
    old.look_again()
    with pytest.raises(old.version.errors.Problem, match="generation 3"):
        await old.search()
    finished = stack.new()
    await probe(finished, {"which way does a comet point": "d1"})


async def test_a_discard_is_taken_up_again_after_a_kill_at_any_call(
    render_version: Render, platform: Platform
) -> None:
    stack = Replacement(render_version, platform)
    old = stack.old()
    stack.activate(stack.old_config)
    await old.ingest(TEXTS)
    await old.drain()
    stack.create_new_index()
    stack.strategy = "discard"
    discarding = stack.both()
    for call in range(8):
        platform.faults.after["d1"] = [*[lambda: None] * call, _Killed()]
        discarding.look_again()
        try:
            await discarding.stats()
        except _Killed:
            continue
    platform.faults.after.clear()
    discarding.look_again()
    assert (await discarding.stats()).documents.total == 0
    assert (platform.rows(), stack.spaces.discarding) == ([], False)
    assert await discarding.ingest(TEXTS) == {"indexed"}
    await probe(discarding)


class _Killed(BaseException):
    """The process is gone."""


async def test_another_metric_is_another_space_with_the_same_vectors(
    render_version: Render, platform: Platform
) -> None:
    stack = Replacement(render_version, platform, BASE, metric="euclidean")
    both = await stack.begun()
    await probe(both)
    await stack.cut_over(both)
    await probe(both)
    new = stack.new()
    await probe(new)
    assert (stack.spaces.serving.metric, stack.contents("g4")) == ("euclidean", TEXTS)


async def test_an_unwanted_third_model_is_not_begun(stack: Replacement, platform: Platform) -> None:
    """Nobody but the operator's version moves anything: this one names a space that the data is not in."""
    both = await stack.begun()
    await both.stats()
    before = platform.meta()["space"]
    wanted = stack.new_config.model_copy(
        update={"embedding": stack.new_config.embedding.model_copy(update={"generation": 9})}
    )
    stray = stack.deploy(wanted)
    with pytest.raises(stray.version.errors.Problem):
        await stray.search()
    assert platform.meta()["space"] == before
    assert M3 in before
