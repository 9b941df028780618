"""Replacing a space: who answers, what is written where, and what it ends with."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from infra.config import RagConfig
from tests.worker_core.loading import Version
from tests.worker_core.platform_bindings import Platform
from tests.worker_core.replacement import BASE, GEMMA, M3, TEXTS, Replacement, probe
from tests.worker_core.test_model_state import Deployment

Render = Callable[[RagConfig], Version]


@pytest.fixture
def stack(render_version: Render, platform: Platform) -> Replacement:
    return Replacement(render_version, platform)


async def _delete(of: Deployment, *ids: str) -> None:
    await of.version.core.delete_docs(of.b, list(ids))


async def test_nothing_moves_before_the_activation(stack: Replacement, platform: Platform) -> None:
    old = stack.old()
    stack.activate(stack.old_config)
    await old.ingest()
    stack.create_new_index()
    both = stack.both()
    stats = await both.stats()
    assert (stats.state, stats.generation, stats.model) == ("ok", 3, BASE)
    await both.ingest({"more": "Written before the activation."})
    assert await both.search("Written before the activation.")
    assert (len(stack.contents("g3")), stack.contents("g4")) == (31, {})

    stack.activate(stack.new_config)
    both.look_again()
    stats = await both.stats()
    assert (stats.state, stats.generation, stats.model) == ("replacing", 3, BASE)
    assert (stats.progress.done, stats.progress.total) == (0, 31)
    assert (stats.replacing.generation, stats.replacing.model, stats.replacing.cut_over) == (4, M3, False)


@pytest.mark.parametrize("model", [M3, GEMMA, BASE], ids=["other dims", "equal dims", "the same model"])
async def test_from_the_first_step_to_the_last_every_answer_is_right(
    render_version: Render, platform: Platform, model: str
) -> None:
    stack = Replacement(render_version, platform, model)
    both = await stack.begun()
    other_isolate = stack.both()
    await probe(both)
    await probe(other_isolate)
    await both.drain()
    assert stack.contents("g4") == TEXTS
    assert not stack.spaces.cut_over_to(4), "not every isolate may know of the new space yet"
    await probe(both)

    await stack.cut_over(both)
    assert (await other_isolate.stats()).generation == 3, "within its minute it knows nothing of the cut-over"
    await probe(both)
    await probe(other_isolate)
    stats = await both.stats()
    assert (stats.state, stats.generation, stats.model, stats.progress) == ("replacing", 4, model, None)
    assert stats.replacing.cut_over

    new = stack.new()
    await probe(new)
    stats = await new.stats()
    assert (stats.state, stats.generation, stats.replacing) == ("ok", 4, None)
    assert not stack.under_way()
    platform.vectorize.delete("g3")
    await probe(new)
    assert await new.ingest(TEXTS) == {"skipped"}
    for name, text in TEXTS.items():
        assert (await new.version.core.get_doc(new.b, name)).body == text
    assert await new.drain() == 0, "nothing is left to do"


async def test_mixing_two_models_makes_the_probe_fail(
    render_version: Render, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the other tests of the probe rest on: a question of one model among another's vectors."""
    stack = Replacement(render_version, platform, GEMMA)
    both = await stack.begun()
    await probe(both)
    embed = both.version.embedder.embed_query
    new_model = both.version.models.MODELS[GEMMA]
    monkeypatch.setattr(both.version.embedder, "embed_query", lambda ai, _, text: embed(ai, new_model, text))
    with pytest.raises(AssertionError):
        await probe(both)


async def test_the_same_model_is_not_asked_again(render_version: Render, platform: Platform) -> None:
    stack = Replacement(render_version, platform, BASE)
    both = await stack.begun()
    platform.pass_minutes(6)
    before = platform.calls["ai"]
    await both.drain()
    assert stack.contents("g4") == TEXTS
    assert platform.calls["ai"] == before


async def test_writes_go_to_both_spaces_in_as_many_calls_as_documented(
    stack: Replacement, platform: Platform
) -> None:
    both = await stack.begun()
    await both.drain()
    await both.stats()
    platform.calls = Counter()
    assert await both.ingest({"new": "A new document."}) == {"indexed"}
    assert (platform.calls["d1"], platform.calls["ai"], platform.calls["vectorize"]) == (2, 2, 2)
    await both.ingest({"d1": "Comets have tails."})
    flagged = both.version.schemas.Document(id="d2", body=TEXTS["d2"], active=False)
    before = platform.calls["ai"]
    await both.version.core.ingest_docs(both.b, [flagged], source="test")
    assert platform.calls["ai"] == before, "the flag alone needs no AI in either space"
    await _delete(both, "d3")

    expected = TEXTS | {"new": "A new document.", "d1": "Comets have tails."}
    del expected["d3"]
    for index in ("g3", "g4"):
        assert stack.contents(index) == expected
        assert platform.vectorize.get_by_ids(index, ["d2"])[0]["metadata"]["active"] is False
    assert platform.row("d3") is None
    await stack.cut_over(both)
    assert stack.contents("g4") == stack.contents("g3") == expected


def _refusing(call: Callable[..., Any], failing: dict[str, str]) -> Callable[..., Any]:
    """The call, which fails for one index."""

    def refusing(name: str, *given: Any) -> Any:
        if name == failing["index"]:
            raise RuntimeError("VECTOR_ERROR (code = 40041): Too Many Requests")
        return call(name, *given)

    return refusing


async def test_the_serving_space_decides_and_the_sweep_repairs_the_other(
    stack: Replacement, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = await stack.begun()
    await both.drain()
    for serving, other in (("g3", "g4"), ("g4", "g3")):
        upsert = platform.vectorize.write
        failing = {"index": other}
        monkeypatch.setattr(platform.vectorize, "write", _refusing(upsert, failing))
        text = f"Written while {other} fails."
        assert await both.ingest({"d1": text, f"only-{serving}": text}) == {"indexed"}
        assert (stack.contents(serving)["d1"], stack.contents(other)["d1"] == text) == (text, False)
        failing["index"] = serving
        (result,) = await both.version.core.ingest_docs(
            both.b, [both.version.schemas.Document(id="d2", body="Refused.")], source="test"
        )
        assert result.status == 503
        monkeypatch.setattr(platform.vectorize, "write", upsert)
        platform.pass_minutes(12)
        await stack.go_on(both)
        await stack.go_on(both)
        assert stack.contents(other) == stack.contents(serving)
        assert stack.contents(serving)["d2"] == TEXTS["d2"]
        await stack.cut_over(both)


async def test_deletes_reach_both_spaces_though_one_fails_at_first(
    stack: Replacement, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = await stack.begun()
    await both.drain()
    delete = platform.vectorize.delete_by_ids
    with monkeypatch.context() as patch:
        patch.setattr(platform.vectorize, "delete_by_ids", _refusing(delete, {"index": "g4"}))
        await _delete(both, "d1")
    assert ("d1" in stack.contents("g3"), "d1" in stack.contents("g4")) == (False, True)
    with pytest.raises(both.version.errors.Problem):
        await both.version.core.get_doc(both.b, "d1")
    await stack.go_on(both)
    assert "d1" not in stack.contents("g4")
    assert platform.row("d1") is None


async def test_what_an_isolate_writes_that_knows_of_one_space_reaches_both(
    stack: Replacement, platform: Platform
) -> None:
    stale = stack.old()
    stack.activate(stack.old_config)
    both = await stack.begun()
    await stale.stats()
    platform.set_meta(desired_fingerprint=stack.new_config.fingerprint(), desired_generation="4")
    await both.drain()
    await stale.ingest({"d1": "Updated by the old version.", "late": "Written by the old version."})
    await _delete(stale, "d2")
    assert (await both.search("Updated by the old version."))[0].id == "d1"
    await stack.cut_over(both)
    expected = TEXTS | {"d1": "Updated by the old version.", "late": "Written by the old version."}
    del expected["d2"]
    assert stack.contents("g4") == stack.contents("g3") == expected
    assert platform.row("d2") is None


async def test_the_cut_over_waits_until_the_new_index_shows_the_last_writes(
    stack: Replacement, platform: Platform
) -> None:
    both = await stack.begun()
    platform.vectorize.delay = 3600
    await both.drain()
    for _ in range(3):
        await stack.go_on(both)
    assert not stack.spaces.cut_over_to(4)
    assert (await both.stats()).progress.done == len(TEXTS)
    await probe(both)
    platform.vectorize.delay = 0
    await stack.cut_over(both)
    await probe(both)


async def test_a_document_that_the_new_model_never_takes_holds_up_the_cut_over_and_is_named(
    stack: Replacement, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = platform.ai.run

    def run(model: str, inputs: Any) -> Any:
        if model == M3 and any("POISON" in text for text in inputs["text"]):
            from local.ai.inputs import context_exceeded

            raise context_exceeded(9_999, 8_192)
        return real(model, inputs)

    monkeypatch.setattr(platform.ai, "run", run)
    both = await stack.begun(TEXTS | {"bad": "POISON from the start."})
    await both.drain()
    for _ in range(3):
        await stack.go_on(both)
    progress = (await both.stats()).progress
    assert (progress.done, progress.total, progress.failed) == (8, 9, 1)
    assert [each["body"]["original"]["ids"] for each in platform.dead] == [["bad"]]
    asked = platform.calls["ai"]
    await stack.go_on(both)
    assert platform.calls["ai"] == asked, "it is not tried again"

    # What was taken before is not found any more under content that is not taken.
    assert await both.ingest({"d1": "POISON afterwards."}) == {"indexed"}
    assert "d1" not in stack.contents("g4")
    assert stack.contents("g3")["d1"] == "POISON afterwards."
    await stack.go_on(both)
    assert not stack.spaces.cut_over_to(4)
    found = platform.sql.execute(_failed_sql(stack)).fetchall()
    assert [row["id"] for row in found] == ["bad", "d1"]

    await _delete(both, "bad")
    await both.ingest({"d1": "Good again."})
    await stack.cut_over(both)
    assert stack.contents("g4") == TEXTS | {"d1": "Good again."}


def _failed_sql(stack: Replacement) -> str:
    from infra.replacement import failed_sql

    assert stack.spaces.other is not None
    return failed_sql(stack.spaces.other.side)


async def test_failing_calls_of_ai_delay_but_lose_nothing(stack: Replacement, platform: Platform) -> None:
    both = await stack.begun()
    await both.stats()
    platform.faults.before["ai"] = [RuntimeError("3040: Capacity temporarily exceeded")] * 9
    await both.drain()
    await stack.cut_over(both)
    assert stack.contents("g4") == TEXTS


async def test_a_finished_version_before_the_cut_over_answers_nothing(
    stack: Replacement, platform: Platform
) -> None:
    both = await stack.begun()
    await both.drain()
    early = stack.new()
    with pytest.raises(early.version.errors.Problem) as refused:
        await early.search()
    assert (refused.value.status, refused.value.type) == (503, "dims-mismatch")
    await stack.cut_over(both)
    early.look_again()
    await probe(early)


async def test_a_replaced_version_that_is_still_running_can_not_disturb_the_finished_one(
    stack: Replacement, platform: Platform
) -> None:
    both = await stack.begun()
    await stack.cut_over(both)
    stale = stack.both()
    await stale.stats()
    new = stack.new()
    await new.stats()
    assert not stack.under_way()
    await stale.ingest({"d1": "Written in flight.", "late": "Also in flight."})
    await _delete(stale, "d2")
    platform.vectorize.delete("g3")
    await stack.go_on(new)
    await stack.go_on(new)
    expected = TEXTS | {"d1": "Written in flight.", "late": "Also in flight."}
    del expected["d2"]
    assert stack.contents("g4") == expected
    for name, text in expected.items():
        assert (await new.version.core.get_doc(new.b, name)).body == text
    assert {row["content_hash"] for row in platform.rows()} == {None}
    stale.look_again()
    assert (await stale.stats()).state == "ok"


async def test_the_next_replacement_uses_the_columns_of_the_one_before(
    render_version: Render, platform: Platform
) -> None:
    stack = Replacement(render_version, platform)
    both = await stack.begun()
    await stack.cut_over(both)
    await stack.new().stats()
    platform.vectorize.delete("g3")

    third = Replacement.__new__(Replacement)
    third.__dict__.update(stack.__dict__)
    create = stack.old_config.model_copy(
        update={"embedding": stack.old_config.embedding.model_copy(update={"generation": 5})}
    )
    from tests.worker_core.conftest import create_index
    from tests.worker_core.platform_bindings import Vectorize

    create_index(platform.vectorize, "g5", create)
    version = render_version(create)
    replaced = version.bindings.Replaced(4, M3, 1024, "cosine")
    back = Deployment(
        version,
        platform,
        create,
        vars=version.bindings.Vars(BASE, 768, 5, True, replaced),
        vectorize=Vectorize(platform, "g4"),
        vectorize_next=Vectorize(platform, "g5"),
    )
    stack.activate(create)
    for _ in range(4):
        await stack.go_on(back)
    assert stack.spaces.cut_over_to(5)
    assert stack.contents("g5") == TEXTS
    await probe(back)
    assert all(row["content_hash"] for row in platform.rows())
