"""Which changes of an embedding space are granted."""

from dataclasses import replace

import pytest

from infra.provider.gate import Space, Wish, judge

BASE, LARGE, M3 = "@cf/baai/bge-base-en-v1.5", "@cf/baai/bge-large-en-v1.5", "@cf/baai/bge-m3"
OLD = Space(1, BASE, 768, "cosine", "shop-dev-768-g1")
NEW = Space(2, LARGE, 1024, "cosine", "shop-dev-1024-g2")
REPLACING = Wish(NEW, OLD)


@pytest.mark.parametrize(
    ("deployed", "wanted"),
    [
        pytest.param(Wish(OLD), Wish(OLD), id="nothing"),
        pytest.param(Wish(OLD), Wish(replace(OLD, model="@cf/google/embeddinggemma-300m")), id="equal dims"),
        pytest.param(Wish(OLD), REPLACING, id="start"),
        pytest.param(Wish(replace(OLD, model=None)), REPLACING, id="start, old model not known"),
        pytest.param(REPLACING, REPLACING, id="under way"),
        pytest.param(REPLACING, Wish(NEW), id="finish"),
        pytest.param(REPLACING, Wish(OLD), id="abort"),
        pytest.param(Wish(OLD), Wish(replace(OLD, generation=2), OLD), id="equal dims, next generation"),
    ],
)
def test_what_is_asked_for_by_name_is_granted(deployed: Wish, wanted: Wish) -> None:
    assert judge(deployed, wanted) is None


@pytest.mark.parametrize(
    ("wanted", "setting"),
    [
        (Wish(replace(OLD, dims=1024, model=LARGE)), "dims"),
        (Wish(replace(OLD, metric="euclidean")), "metric"),
        (Wish(replace(OLD, generation=2)), "generation"),
        (Wish(replace(OLD, generation=2, dims=1024)), "dims"),
        (Wish(replace(NEW, generation=3), OLD), "generation"),
        (Wish(NEW, replace(OLD, model=M3)), "replacing"),
        (Wish(NEW, replace(OLD, dims=384)), "replacing"),
        (Wish(NEW, replace(OLD, generation=7)), "replacing"),
        (Wish(OLD, replace(OLD, generation=7)), "replacing"),
    ],
)
def test_every_other_change_is_refused_at_the_setting_at_fault(wanted: Wish, setting: str) -> None:
    refusal = judge(Wish(OLD), wanted)
    assert refusal is not None
    assert refusal.setting == setting


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(Wish(replace(NEW, model=M3), OLD), id="third model"),
        pytest.param(Wish(replace(NEW, generation=3, dims=384), NEW), id="next replacement"),
        pytest.param(Wish(replace(OLD, model=M3)), id="abort into another model"),
        pytest.param(replace(REPLACING, strategy="discard"), id="other strategy"),
    ],
)
def test_a_replacement_under_way_allows_no_third_thing(wanted: Wish) -> None:
    refusal = judge(REPLACING, wanted)
    assert refusal is not None
    assert "abort" in refusal.way_out
    assert refusal.at_stake == OLD.index


def test_a_refusal_names_both_dims_and_the_setting_that_would_allow_it() -> None:
    refusal = judge(Wish(OLD), Wish(replace(OLD, dims=1024, model=LARGE)))
    assert refusal is not None
    assert "dims 768 -> 1024" in refusal.reason
    assert "cf-rag:rag.embedding.generation: 2" in refusal.way_out
    assert f'{{generation: 1, model: "{BASE}", strategy: reindex}}' in refusal.way_out
    assert refusal.at_stake == OLD.index


def test_following_the_way_out_of_a_refusal_is_granted() -> None:
    refused = Space(1, LARGE, 1024, "cosine", "shop-dev-1024-g1")
    assert judge(Wish(OLD), Wish(refused)) is not None
    assert judge(Wish(OLD), Wish(replace(refused, generation=2), OLD)) is None
