"""Documents that bring their vectors: the write path of an ingest, and never a vector of another making."""

from typing import Any

import pytest

from tests.worker_core.conftest import bind, config
from tests.worker_core.replacement import BASE, GEMMA, TEXTS, Replacement


async def brought(version: Any, bindings: Any, /, **texts: str) -> tuple[str, list[Any]]:
    """The fingerprint and documents with vectors that no model makes."""
    space = await version.transfer.get_space(bindings)
    make = version.schemas.DocumentWithVector
    return space.fingerprint, [
        make(id=name, body=text, values=[0.25 + at, *[0.0] * (space.dims - 1)])
        for at, (name, text) in enumerate(texts.items())
    ]


async def test_an_import_takes_the_round_trips_of_an_ingest_without_ai(
    worker: Any, b: Any, platform: Any
) -> None:
    fingerprint, documents = await brought(worker, b, a="Text.", b="Other text.")
    platform.calls.clear()
    results = await worker.transfer.import_docs(b, fingerprint, documents)
    assert [each.status for each in results] == ["indexed", "indexed"]
    assert (platform.calls["d1"], platform.calls["vectorize"], platform.calls["ai"]) == (2, 1, 0)
    found = await worker.transfer.get_vectors(b, ["b", "a"])
    assert [(each.id, each.values) for each in found.vectors] == [
        ("b", documents[1].values),
        ("a", documents[0].values),
    ]
    # Any later ingest of the same content takes it for its own.
    (again,) = await worker.core.ingest_docs(b, [worker.schemas.Document(id="a", body="Text.")], source="t")
    assert (again.status, platform.calls["ai"]) == ("skipped", 0)


async def test_in_a_replacement_the_other_space_gets_a_vector_of_its_own_model(
    render_version: Any, platform: Any
) -> None:
    stand = Replacement(render_version, platform)
    both = await stand.begun()
    version, b = both.version, both.b
    fingerprint, documents = await brought(version, b, new="A lighthouse warns ships of the rocks.")
    assert fingerprint.startswith(BASE)
    before = platform.calls["ai"]
    (result,) = await version.transfer.import_docs(b, fingerprint, documents)
    assert (result.status, platform.calls["ai"] - before) == ("indexed", 1)
    (old,) = platform.vectorize.get_by_ids("g3", ["new"])
    (new,) = platform.vectorize.get_by_ids("g4", ["new"])
    assert old["values"] == documents[0].values
    assert (len(new["values"]), new["metadata"]["rawBody"]) == (1024, documents[0].body)
    read = await version.transfer.get_vectors(b, ["new", "d1"])
    assert (read.generation, read.fingerprint) == (3, fingerprint)
    assert [len(each.values) for each in read.vectors] == [768, 768]

    await stand.cut_over(both)
    both.look_again()
    read = await version.transfer.get_vectors(b, ["new", "d1"])
    assert (read.generation, [len(each.values) for each in read.vectors]) == (4, [1024, 1024])
    with pytest.raises(version.errors.Problem, match="this space's of @cf/baai/bge-m3"):
        await version.transfer.import_docs(b, fingerprint, documents)


async def test_while_documents_are_embedded_again_no_vector_goes_in_or_out(
    render_version: Any, platform: Any
) -> None:
    stand = Replacement(render_version, platform)
    old = stand.old()
    await old.ingest(TEXTS)
    other = stand.deploy(config(embedding={"model": GEMMA, "generation": 3}))
    fingerprint, documents = await brought(other.version, other.b, new="Text.")
    problem = other.version.errors.Problem
    assert (fingerprint[: len(GEMMA)], (await other.version.transfer.get_space(other.b)).settled) == (
        GEMMA,
        False,
    )
    with pytest.raises(problem, match="being embedded again") as refused:
        await other.version.transfer.import_docs(other.b, fingerprint, documents)
    assert refused.value.status == 409
    with pytest.raises(problem, match="vectors of an older model") as refused:
        await other.version.transfer.get_vectors(other.b, ["d1"])
    assert refused.value.status == 409


async def test_a_vector_that_the_space_does_not_count_as_its_own_is_left_out(
    worker: Any, b: Any, doc: Any, platform: Any
) -> None:
    await worker.core.ingest_docs(b, [doc("a"), doc("b")], source="test")
    platform.sql.execute("UPDATE documents SET embed_model = '!' || embed_model WHERE id = 'a'")
    found = await worker.transfer.get_vectors(b, ["a", "b"])
    assert [each.id for each in found.vectors] == ["b"]


async def test_where_the_dimensions_are_not_the_datas_nothing_is_imported(
    render_version: Any, worker: Any, b: Any, doc: Any, platform: Any
) -> None:
    await worker.core.ingest_docs(b, [doc()], source="test")
    wanted = config(embedding={"model": BASE})
    wrong = render_version(wanted)
    bindings = bind(wrong, platform, wanted)
    fingerprint, documents = await brought(wrong, bindings, new="Text.")
    assert (await wrong.transfer.get_space(bindings)).state == "dims_mismatch"
    with pytest.raises(wrong.errors.Problem, match="configured for") as refused:
        await wrong.transfer.import_docs(bindings, fingerprint, documents)
    assert refused.value.status == 503
