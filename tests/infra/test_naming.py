"""Names of a stack's resources."""

import pytest

from infra.config import RagConfig
from infra.errors import ConfigError


def config(name: str, **values: object) -> RagConfig:
    return RagConfig.from_pulumi({"name": name, **values})


def test_every_resource_is_named_by_service_and_stack() -> None:
    names = config("docs").names("dev")
    assert (names.db, names.ingest, names.dlq, names.worker) == (
        "docs-dev-db",
        "docs-dev-ingest",
        "docs-dev-ingest-dlq",
        "docs-dev-worker",
    )
    assert names.index(3, 1024) == "docs-dev-1024-g3"


def test_a_name_of_63_characters_fits_and_of_64_is_refused() -> None:
    fits = 63 - len("-dev-ingest-dlq")
    assert len(config("x" * fits).names("dev").dlq) == 63
    with pytest.raises(ConfigError) as caught:
        config("x" * (fits + 1)).names("dev")
    assert "is 64 characters; at most 63 allowed" in str(caught.value)
    assert "cf-rag:rag.name" in str(caught.value)


def test_the_stacks_name_counts() -> None:
    assert config("docs").names("s" * 40)
    with pytest.raises(ConfigError, match="shorten it or the stack's name"):
        config("docs").names("s" * 60)


def test_the_index_that_is_replaced_is_checked_too() -> None:
    replacing = {"generation": 1, "model": "@cf/baai/bge-large-en-v1.5"}
    name = "x" * (63 - len("-dev-ingest-dlq"))
    assert config(name, embedding={"generation": 2}, replacing=replacing).names("dev")


@pytest.mark.parametrize("stack", ["Dev", "feature/x", "a_b", "a.b", "-x"])
def test_a_stack_whose_name_cant_be_part_of_a_name_is_refused(stack: str) -> None:
    with pytest.raises(ConfigError, match=r"stack: .*becomes part of resource names"):
        config("docs").names(stack)
