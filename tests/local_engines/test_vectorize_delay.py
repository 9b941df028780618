"""Writes that become visible later: to every read alike, in order, and across a restart."""

from pathlib import Path
from typing import Any

import pytest

from local.envelope import ApiError
from local.vectorize import VectorizeService


def vector(name: str, values: list[float] | None = None, **more: Any) -> dict[str, Any]:
    return {"id": name, "values": values or [1.0, 0.0, 0.0]} | more


def found(index: VectorizeService, **options: Any) -> list[str]:
    return [match["id"] for match in index.query("docs", [1, 0, 0], options)["matches"]]


def visible(index: VectorizeService) -> dict[str, Any]:
    """What every kind of read says of the index."""
    return {
        "query": found(index),
        "get": [one["id"] for one in index.get_by_ids("docs", ["a", "b"])],
        "list": [one["id"] for one in index.list_vectors("docs", 10, None)["vectors"]],
        "count": index.info("docs")["vectorCount"],
        "indexes": [one["propertyName"] for one in index.metadata_indexes("docs")],
    }


def test_a_write_is_invisible_to_every_read_until_its_delay_is_over(
    index: VectorizeService, clock: Any
) -> None:
    before = visible(index)
    index.delay = 5
    index.create_metadata_index("docs", "lang", "string")
    clock.now += 1
    index.write("docs", [vector("a", metadata={"lang": "en"})], "upsert")
    assert visible(index) == before
    clock.now += 4
    assert visible(index) == before | {"indexes": ["lang"]}
    clock.now += 1
    assert visible(index) == {"query": ["a"], "get": ["a"], "list": ["a"], "count": 1, "indexes": ["lang"]}
    assert found(index, filter={"lang": "en"}) == ["a"]


def test_mutations_are_processed_in_the_order_of_their_acceptance(
    index: VectorizeService, clock: Any
) -> None:
    index.delay = 5
    index.write("docs", [vector("a"), vector("b")], "upsert")
    index.delete_by_ids("docs", ["a"])
    last = index.write("docs", [vector("a", [0, 0, 1])], "insert")["mutationId"]
    clock.now += 5
    assert index.get_by_ids("docs", ["a"])[0]["values"] == [0.0, 0.0, 1.0]
    assert index.info("docs")["processedUpToMutation"] == last


def test_info_tells_how_far_mutations_are_processed(index: VectorizeService, clock: Any) -> None:
    assert index.info("docs") == {"dimensions": 3, "vectorCount": 0}
    index.delay = 5
    first = index.write("docs", [vector("a")], "upsert")["mutationId"]
    clock.now += 3
    index.write("docs", [vector("b")], "upsert")
    clock.now += 2
    assert index.info("docs") == {
        "dimensions": 3,
        "vectorCount": 1,
        "processedUpToMutation": first,
        "processedUpToDatetime": "2023-11-14T22:13:25.000Z",
    }


def test_pending_writes_survive_a_restart(tmp_path: Path, clock: Any) -> None:
    path = tmp_path / "kept.db"
    first = VectorizeService(path, delay=5, clock=clock)
    first.create("docs", "kept", 3, "cosine")
    first.create_metadata_index("docs", "lang", "string")
    mutation = first.write("docs", [vector("a", metadata={"lang": "en"})], "upsert")["mutationId"]
    first.close()
    second = VectorizeService(path, delay=5, clock=clock)
    assert found(second) == []
    clock.now += 5
    assert found(second, filter={"lang": "en"}) == ["a"]
    assert second.info("docs")["processedUpToMutation"] == mutation
    second.close()


def test_metadata_indexes_keep_their_members_across_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    first = VectorizeService(path)
    first.create("docs", None, 3, "cosine")
    first.write("docs", [vector("old", metadata={"lang": "en"})], "upsert")
    first.create_metadata_index("docs", "lang", "string")
    first.write("docs", [vector("new", metadata={"lang": "en"})], "upsert")
    first.close()
    second = VectorizeService(path)
    assert found(second, filter={"lang": "en"}) == ["new"]
    second.close()


def test_a_shorter_delay_holds_for_what_is_pending(index: VectorizeService) -> None:
    index.delay = 60
    index.write("docs", [vector("a")], "upsert")
    assert found(index) == []
    index.delay = 0
    assert found(index) == ["a"]


def test_a_refused_call_loses_nothing_that_was_due(index: VectorizeService, clock: Any) -> None:
    assert found(index) == []
    index.delay = 1
    index.write("docs", [vector("a")], "upsert")
    clock.now += 1
    with pytest.raises(ApiError, match="expected 3 dimensions"):
        index.query("docs", [1.0], {})
    assert found(index) == ["a"]
