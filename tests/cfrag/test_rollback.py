"""Which versions of a Worker may be put back, and which not; `tests/docs/test_deploy.py` does it for real."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cfrag.rollback import Data, Version, constants, differences
from infra.bundle.templates import own_modules
from infra.config import RagConfig
from tests.deployed import Deployed

FIRST = datetime(2026, 11, 30, 12, tzinfo=UTC)
RAG: dict[str, Any] = {"name": "docs", "metadata": {"words": {"type": "number"}}}


def version(number: int, rag: Mapping[str, Any], index: str = "docs-prod-768-g1") -> Version:
    """A version as it is rendered from a config, uploaded so many hours after the first."""
    (source,) = (
        each for each in own_modules(RagConfig.from_pulumi(dict(rag))) if each.name == "rag/settings.py"
    )
    created = FIRST + timedelta(hours=number)
    return Version(f"{number}" * 36, number, created, constants(source.content.decode()), (index,))


def data(of: Version, *migrations: tuple[str, datetime]) -> Data:
    """The data as the version has left it."""
    applied = (("0001_init.sql", FIRST), *migrations)
    return Data(applied, of.settings["FINGERPRINT"], of.settings["GENERATION"])


@pytest.mark.parametrize(
    "change",
    [
        {"search": {"defaultTopK": 5}},
        {"dashboard": False},
        {"metadata": {"words": {"type": "number", "description": "Length"}}},
    ],
)
def test_a_version_that_reads_the_same_data_may_be_put_back(change: dict[str, Any]) -> None:
    old, new = version(1, RAG), version(2, RAG | change)
    assert not list(differences(new, old, data(new)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"embedding": {"model": "@cf/google/embeddinggemma-300m"}},
            "fingerprint was",
        ),
        ({"embedding": {"generation": 2}}, "generation was 1, and is 2"),
        ({"embedding": {"model": "@cf/baai/bge-m3", "generation": 2}}, "dims was 768, and is 1024"),
        ({"metadata": {"words": {"type": "string"}}}, "words was number, filterable, and is string"),
        (
            {"metadata": {"words": {"type": "number", "filterable": False}}},
            "words was number, filterable, and is number, not filterable",
        ),
        ({"metadata": {}}, "words was number, filterable, and is not there"),
        ({"tags": {"maxPerDocument": 3}}, "tags had 2 slots, and have 3"),
    ],
)
def test_a_version_of_other_data_is_refused_with_what_differs(change: dict[str, Any], reason: str) -> None:
    old, new = version(1, RAG), version(2, RAG | change)
    assert reason in "; ".join(differences(new, old, data(new)))


def test_a_migration_since_the_upload_is_a_reason() -> None:
    old, new = version(1, RAG), version(3, RAG)
    later = ("0002_more.sql", FIRST + timedelta(hours=2))
    assert list(differences(new, old, data(new, later))) == ["it is older than the migrations 0002_more.sql"]
    assert not list(differences(new, new, data(new, later)))


def test_the_data_has_the_last_word_where_two_versions_agree() -> None:
    old, new = version(1, RAG), version(2, RAG)
    moved = Data((), "another fingerprint", 2)
    found = "; ".join(differences(new, old, moved))
    assert "the data is in generation 2" in found
    assert "another fingerprint" in found


def test_another_index_is_a_reason() -> None:
    old, new = version(1, RAG), version(2, RAG, index="docs-prod-768-g2")
    assert "it reads docs-prod-768-g1" in "; ".join(differences(new, old, data(new)))


def test_settings_are_read_and_never_run() -> None:
    found = constants('A: int = 1\nB: str = __import__("os").getcwd()\nC: list[int] = [1, 2]\n')
    assert found == {"A": 1, "C": [1, 2]}


def test_a_stack_with_one_version_has_nothing_to_go_back_to(deployed: Deployed) -> None:
    done = deployed.cfrag("rollback", "--yes")
    assert done.returncode == 2
    assert "nothing to go back to" in done.stderr


def test_an_unknown_version_is_refused_with_those_that_there_are(deployed: Deployed) -> None:
    done = deployed.cfrag("rollback", "77", "--yes")
    assert done.returncode == 2
    assert "77 is no version of pydocs-local-worker; there are: 1" in done.stderr


def test_the_version_that_runs_is_left_alone(deployed: Deployed) -> None:
    done = deployed.cfrag("rollback", "1", "--yes")
    assert done.returncode == 0
    assert "is the one that runs" in done.stderr
