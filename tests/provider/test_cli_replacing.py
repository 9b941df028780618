"""A replacement under way as a person meets it in `pulumi preview`."""

from collections.abc import Callable, Iterator

import pytest

from infra.provider.values import Values
from tests.provider.replacing import BASE, FAILED, IN_BOTH, IN_OLD, LARGE, under_way, wanted
from tests.provider.support import LocalCloudflare, Project

M3 = "@cf/baai/bge-m3"


def declared(space: Values) -> list[Values]:
    return [{"kind": "EmbeddingSpace", "name": "space", "args": space}]


@pytest.fixture(scope="module")
def replacing(new_project: Callable[[str], Project], cloudflare: LocalCloudflare) -> Project:
    """A stack that is on its way from generation 1 to 2; every test leaves it so."""
    under_way(cloudflare, "cli", [IN_BOTH, IN_OLD, FAILED])
    project = new_project("cli")
    project.want(declared(wanted("cli", replacing="reindex")))
    project.up()
    return project


@pytest.fixture
def preview(replacing: Project) -> Iterator[Callable[[Values], str]]:
    def refused(space: Values) -> str:
        replacing.want(declared(space))
        return " ".join(replacing.preview(fails=True).split())

    yield refused
    replacing.want(declared(wanted("cli", replacing="reindex")))


def test_the_same_config_again_is_quiet(replacing: Project) -> None:
    assert "warning" not in replacing.preview("--expect-no-changes")


def third_model() -> Values:
    return wanted("cli", replacing="reindex") | {"model": M3}


def other_source() -> Values:
    space = wanted("cli", replacing="reindex")
    return space | {"replacing": space["replacing"] | {"model": M3}}


def skipped_generation() -> Values:
    return wanted("cli", replacing="reindex") | {"generation": 3, "index": "cli-1024-g3"}


def other_strategy() -> Values:
    return wanted("cli", replacing="discard")


@pytest.mark.parametrize("asked", [third_model, other_source, skipped_generation, other_strategy])
def test_any_other_change_is_refused_with_the_two_that_are_possible(
    preview: Callable[[Values], str], asked: Callable[[], Values]
) -> None:
    said = preview(asked())
    assert f"generation 1 ({BASE}, 768 dims, cosine) is being replaced by generation 2 ({LARGE}" in said
    assert "2 vectors live in cli-768-g1" in said
    assert (
        f'let it run with embedding {{model: "{LARGE}", generation: 2}} and replacing {{generation: 1' in said
    )
    assert f'abort it with embedding {{model: "{BASE}", generation: 1}} and without replacing' in said


def test_a_finish_is_refused_while_documents_are_missing(preview: Callable[[Values], str]) -> None:
    said = preview(wanted("cli"))
    assert "the replacement can't be finished" in said
    assert f"2 of 3 documents are missing in generation 2; {LARGE} can't embed doc/02" in said
    assert "cfrag dims finish --drop-failed" in said


def test_an_abort_is_granted_and_says_what_it_does(replacing: Project) -> None:
    replacing.want(declared(wanted("cli", generation=1)))
    said = replacing.preview()
    replacing.want(declared(wanted("cli", replacing="reindex")))
    assert "aborting: back to generation 1; index cli-1024-g2 of generation 2 will be deleted" in said


def test_a_start_is_refused_or_says_how_many_documents_are_embedded_again_or_lost(
    new_project: Callable[[str], Project], cloudflare: LocalCloudflare
) -> None:
    under_way(cloudflare, "asked", [IN_OLD, IN_OLD])
    cloudflare.client.vectorize.indexes.delete("asked-1024-g2", account_id=cloudflare.account)
    project = new_project("asked")
    project.want(declared(wanted("asked", generation=1)))
    project.up()

    skipping = wanted("asked", replacing="reindex") | {"generation": 3, "index": "asked-1024-g3"}
    project.want(declared(skipping))
    said = " ".join(project.preview(fails=True).split())
    assert "generation 1 can only be followed by 2, not 3" in said
    assert "set cf-rag:rag.embedding.generation: 2" in said
    unmatched = wanted("asked", replacing="reindex")
    unmatched["replacing"] |= {"model": M3, "dims": 1024, "index": "asked-1024-g1"}
    project.want(declared(unmatched))
    said = " ".join(project.preview(fails=True).split())
    assert f"replacing names generation 1 ({M3}, 1024 dims, cosine), but the stack is in generation 1" in said
    assert f'replacing: {{generation: 1, model: "{BASE}", strategy: reindex}}' in said

    project.want(declared(wanted("asked", replacing="discard")))
    assert "the content of 2 documents will be LOST" in project.preview()
    drift = wanted("asked", generation=1) | {"model": "@cf/google/embeddinggemma-300m"}
    project.want(declared(drift))
    assert "2 documents will be embedded again, in place" in project.preview()
