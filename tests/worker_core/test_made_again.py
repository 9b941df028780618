"""A metadata index that was removed and made again: what it lacks is not kept quiet, and comes back."""

import json
from typing import Any

import pytest

from infra.provider.outside import REWRITE
from tests.worker_core.platform_bindings import Platform
from tests.worker_core.test_model_state import BASE, Deploy, Deployment, deploy
from tests.worker_core.test_sweep import METADATA

__all__ = ["deploy"]


@pytest.fixture
async def filled(deploy: Deploy) -> Deployment:
    """25 documents, five of them with a tag."""
    version = deploy(BASE)
    make = version.version.schemas.Document
    documents = [
        make(id=f"n{at}", body=f"Passage {at}.", metadata={"year": at}, tags=["five"] if at % 5 == 0 else [])
        for at in range(25)
    ]
    await version.version.core.ingest_docs(version.b, documents, source="test")
    return version


def make_again(platform: Platform, *entries: str) -> None:
    """As somebody removes metadata indexes, and the provider makes them once more and tells D1."""
    for entry in entries:
        name, _, found = entry.partition(":")
        kind: Any = found
        platform.vectorize.delete_metadata_index("g3", name)
        platform.vectorize.create_metadata_index("g3", name, kind)
    platform.sql.execute(REWRITE, ("",)).fetchall()
    schema = json.loads(platform.meta()["schema"])
    ready = [each for each in schema["ready"] if each not in entries]
    platform.set_meta(schema=json.dumps(schema | {"ready": ready, "again": list(entries)}))


@pytest.mark.parametrize(
    ("entry", "condition", "field"),
    [
        ("year:number", {"filter": {"year": {"$gte": 20}}}, "filter.year"),
        ("tags:string", {"tags": ["five"]}, "tags"),
        ("active:boolean", {}, "active"),
    ],
)
async def test_a_condition_on_it_is_refused_until_every_vector_is_in_it_again(
    filled: Deployment, platform: Platform, entry: str, condition: dict[str, Any], field: str
) -> None:
    before = {hit.id for hit in await filled.search(topK=50, **condition)}
    embedded = platform.calls["ai"]
    make_again(platform, entry)
    filled.look_again()
    with pytest.raises(filled.version.errors.Problem) as refused:
        await filled.search(topK=50, **condition)
    assert (refused.value.status, refused.value.field) == (409, field)
    assert refused.value.extra == {"progress": {"done": 0, "total": 25}}

    await filled.drain()
    assert platform.calls["ai"] == embedded, "nothing is embedded again"
    filled.look_again()
    assert {hit.id for hit in await filled.search(topK=50, **condition)} == before
    assert "again" not in json.loads(platform.meta()["schema"])


async def test_searches_without_the_condition_go_on(filled: Deployment, platform: Platform) -> None:
    make_again(platform, "year:number", "tags:string")
    filled.look_again()
    assert len(await filled.search(topK=50)) == 25


async def test_a_slot_for_tags_that_was_only_added_refuses_nothing(
    deploy: Deploy, filled: Deployment
) -> None:
    more = deploy(BASE, tags={"maxPerDocument": 3})
    assert len(await more.search(tags=["five"])) == 5


async def test_a_field_that_is_added_meanwhile_does_not_forget_what_is_missing(
    deploy: Deploy, filled: Deployment, platform: Platform
) -> None:
    make_again(platform, "active:boolean")
    new = deploy(BASE, metadata={**METADATA, "level": {"type": "number"}})
    platform.vectorize.create_metadata_index("g3", "level", "number")
    with pytest.raises(new.version.errors.Problem) as refused:
        await new.search()
    assert refused.value.field == "active"
    await new.drain()
    new.look_again()
    assert len(await new.search(topK=50)) == 25
