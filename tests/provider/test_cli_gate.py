"""The dims gate as a person meets it: through the real Pulumi CLI."""

from collections.abc import Callable, Iterator

import pytest

from infra.provider.values import Values
from tests.provider.support import LocalCloudflare, Project, Wanted

BASE, LARGE = "@cf/baai/bge-base-en-v1.5", "@cf/baai/bge-large-en-v1.5"
REFUSED = "refused: changing dims 768 -> 1024"


def stack(prefix: str, dims: int = 768, model: str = BASE, generation: int = 1, **space: object) -> Wanted:
    """A space with its index and one metadata index, named as a stack names them."""
    index = f"{prefix}-{dims}-g{generation}"
    common: Values = {"owner": f"cfrag:shop/{prefix}", "dims": dims, "metric": "cosine"}
    common |= {"generation": generation, "database": f"{prefix}-db"}
    granted = {"$of": ["space", "spaces"]}
    return [
        {
            "kind": "EmbeddingSpace",
            "name": "space",
            "args": common | {"index": index, "model": model} | space,
        },
        {
            "kind": "VectorizeIndex",
            "name": f"index-g{generation}",
            "args": common | {"name": index, "spaces": granted},
        },
        {
            "kind": "VectorizeMetadataIndex",
            "name": f"g{generation}-tags",
            "args": {"index": index, "property_name": "tags", "index_type": "string"},
            "after": [f"index-g{generation}"],
        },
    ]


@pytest.fixture(scope="module")
def standing(new_project: Callable[[str], Project], cloudflare: LocalCloudflare) -> Project:
    """A stack at 768 dims with three vectors, deployed once for this module."""
    project = new_project("gate")
    project.want(stack("gate"))
    project.up()
    cloudflare.fill("gate-768-g1", 3)
    return project


@pytest.fixture
def changed(standing: Project) -> Iterator[Project]:
    """The same stack with a config that asks for 1024 dims and says nothing else."""
    standing.want(stack("gate", 1024, LARGE))
    yield standing
    standing.want(stack("gate"))


def untouched(cloudflare: LocalCloudflare) -> bool:
    names = {each.name for each in cloudflare.client.vectorize.indexes.list(account_id=cloudflare.account)}
    info = cloudflare.client.vectorize.indexes.info("gate-768-g1", account_id=cloudflare.account)
    return "gate-1024-g1" not in names and info is not None and info.vector_count == 3


def test_a_preview_refuses_with_what_is_at_stake_and_the_way_out(
    changed: Project, cloudflare: LocalCloudflare
) -> None:
    output = changed.preview(fails=True)
    assert REFUSED in output
    assert "3 vectors live in gate-768-g1" in output
    assert "cf-rag:rag.embedding.generation: 2" in output
    assert f'cf-rag:rag.replacing: {{generation: 1, model: "{BASE}", strategy: reindex}}' in output
    assert untouched(cloudflare)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param((), id="skip-preview"),
        pytest.param(("--target", "**index-g1"), id="target"),
    ],
)
def test_an_update_refuses_whatever_is_skipped(
    changed: Project, cloudflare: LocalCloudflare, arguments: tuple[str, ...]
) -> None:
    output = changed.up(*arguments, fails=True)
    assert REFUSED in output or "is space g1/1024/cosine, but the stack's embedding space is g1/768" in output
    assert untouched(cloudflare)


def test_a_space_under_another_name_is_still_refused(standing: Project, cloudflare: LocalCloudflare) -> None:
    renamed, index, tags = stack("gate", 1024, LARGE)
    index["args"]["spaces"] = {"$of": ["vectors", "spaces"]}
    standing.want([renamed | {"name": "vectors"}, index, tags])
    assert REFUSED in standing.preview(fails=True)
    standing.want(stack("gate"))
    assert untouched(cloudflare)


def test_a_lost_state_is_no_way_around(
    standing: Project, cloudflare: LocalCloudflare, new_project: Callable[[str], Project]
) -> None:
    lost = new_project("lost")
    lost.want(stack("gate", 1024, LARGE))
    assert REFUSED in lost.up(fails=True)
    lost.want(stack("gate"))
    lost.up()
    lost.preview("--expect-no-changes")
    assert untouched(cloudflare)


def test_a_renamed_stack_is_refused_before_anything_is_touched(
    standing: Project, cloudflare: LocalCloudflare
) -> None:
    standing.want(stack("moved", 1024, LARGE))
    output = standing.up(fails=True)
    assert REFUSED in output
    assert "this stack's data is in database gate-db of cfrag:shop/gate" in output
    assert "name it back" in output
    standing.want(stack("gate"))
    assert untouched(cloudflare)


def test_a_replacement_asked_for_by_name_is_shown_with_what_is_at_stake(standing: Project) -> None:
    old: Values = {"generation": 1, "model": BASE, "dims": 768, "metric": "cosine", "index": "gate-768-g1"}
    new = stack("gate", 1024, LARGE, 2, replacing=old | {"strategy": "reindex"})
    kept = stack("gate")[1:]
    standing.want([new[0], *kept, *new[1:]])
    output = standing.preview()
    assert "generation 1 (768 dims) is being replaced by generation 2 (1024 dims)" in output
    assert "3 vectors live in gate-768-g1" in output
    assert "768 => 1024" in output
    standing.want(stack("gate"))
