"""The embedding space replaced through the real CLI, with writers, probes and kills all along."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stack.checkout import Json, Service
from tests.stack.probes import probing
from tests.stack.stand import RAG, TWIN, WORKER, Stand

pytestmark = pytest.mark.xdist_group("stack-replacing")

# The spaces of the story, in its order: M3's is aborted, SMALL's begins empty.
BASE, GEMMA = "@cf/baai/bge-base-en-v1.5", "@cf/google/embeddinggemma-300m"
LARGE, M3 = "@cf/baai/bge-large-en-v1.5", "@cf/baai/bge-m3"
SMALL = "@cf/baai/bge-small-en-v1.5"
G1, G2, G3, G4 = "move-local-768-g1", "move-local-768-g2", "move-local-1024-g3", "move-local-384-g4"
COUNT, NEW, CHANGED = 500, 50, 20

TOPICS = {
    "volcano": ("Molten lava runs down the slope of an erupting volcano.", "lava of a volcano"),
    "violin": ("The violin plays the melody of a concerto with the orchestra.", "violin concerto"),
    "bread": ("Flour, water and yeast are kneaded into dough for bread.", "kneading dough for bread"),
    "glacier": ("The glacier moves slowly and leaves ice and moraine behind.", "ice of a glacier"),
    "tennis": ("A tennis player serves the ball over the net.", "a tennis serve"),
    "whale": ("The blue whale dives deep into the ocean and feeds on krill.", "whale in the ocean"),
}
ANSWERS = {query: f"topic/{name}" for name, (_, query) in TOPICS.items()}


def entry(number: int, text: str = "crates were delivered") -> Json:
    return {
        "id": f"entry/{number:03}",
        "title": f"Entry {number}",
        "body": f"Entry {number} of the ledger: {number} {text}.",
        "tags": ["even" if number % 2 == 0 else "odd"],
        "metadata": {"kind": "entry", "number": number},
    }


def topic(name: str) -> Json:
    text, _ = TOPICS[name]
    return {
        "id": f"topic/{name}",
        "title": None,
        "body": text,
        "tags": [],
        "metadata": {"kind": "topic", "number": 0},
    }


# 4,500 tokens in 9 KB: bge-base cuts it short, embeddinggemma, which takes 2,048, never takes it.
LONG = topic("whale") | {"id": "long/one", "body": "a b c " * 1500, "metadata": {"kind": "long", "number": 1}}
FIRST = [*map(topic, TOPICS), *(entry(number) for number in range(COUNT - len(TOPICS)))]


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """A stack at 768 dims with 500 documents; the tests of this module take it from there, in order."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    folder: Path = tmp_path_factory.mktemp("replacing")
    stand = Stand.create(folder / "home", port)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CFRAG_HOME", str(folder / "home"))
        stand.pulumi("up", "--yes", "--skip-preview")
        stand.write(FIRST)
        stand.until(lambda: len(stand.vectors(G1)) == COUNT)
        stand.deploy_twin()
        yield stand
        stand.cloudflare.stop()


def holds_what_was_written(stand: Stand, index: str) -> None:
    """Every live document is in the index as it was last written, compared one by one, and nothing else."""
    vectors = stand.vectors(index)
    assert set(vectors) == set(stand.written)
    for key, document in stand.written.items():
        metadata = vectors[key]["metadata"]
        assert metadata["rawBody"] == document["body"], key
        assert metadata.get("title") == document["title"], key
        assert [tag for tag in (metadata.get("tags"), metadata.get("tags_1")) if tag] == document["tags"], key
        assert {name: metadata[name] for name in document["metadata"]} == document["metadata"], key
    rows = {row["id"] for row in stand.rows() if row["deleted_at"] is None}
    assert rows == set(stand.written)


def finished_by_hand(stand: Stand, *, fails: bool = False) -> str:
    """What `pulumi up` prints where somebody has removed `replacing` from the settings."""
    before = stand.rag
    stand.configure({key: value for key, value in before.items() if key != "replacing"})
    said = " ".join(stand.pulumi("up", "--yes", "--skip-preview", fails=fails).split())
    stand.configure(before)
    return said


def answers(stand: Stand) -> list[Any]:
    with probing(ANSWERS, stand.url(WORKER)) as (probe,):
        stand.until(lambda: probe.asked >= len(ANSWERS))
    return probe.wrong


def test_an_unasked_change_is_refused_and_touches_nothing(stand: Stand) -> None:
    vectors, rows = stand.vectors(G1), stand.rows()
    stand.configure(RAG | {"embedding": {"model": LARGE}})
    for command in (("preview",), ("up", "--yes", "--skip-preview")):
        said = stand.pulumi(*command, fails=True)
        assert "refused: changing dims 768 -> 1024" in said
        assert "500 vectors live in move-local-768-g1" in said
        assert f'replacing: {{generation: 1, model: "{BASE}", strategy: reindex}}' in said
    stand.configure(RAG)
    assert (stand.vectors(G1), stand.rows()) == (vectors, rows)
    assert [each for each in stand.indexes() if each.startswith("move-")] == [G1]


def test_a_plan_shows_what_it_takes_and_changes_nothing(stand: Stand) -> None:
    plan = json.loads(stand.cfrag("dims", "plan", LARGE, "--json"))
    assert (plan["from"]["dims"], plan["to"]["dims"], plan["documents"]) == (768, 1024, COUNT)
    assert plan["sampled"] == 100
    assert plan["aiCalls"] == 5
    assert 0 < plan["tokens"] < COUNT * 100
    assert stand.rag == RAG


def test_equal_dims_are_replaced_apart_and_what_the_new_model_never_takes_goes_only_when_it_is_said(
    stand: Stand,
) -> None:
    stand.write([LONG])
    with stand.hurry():
        with probing(ANSWERS, stand.url(WORKER), stand.url(TWIN)) as probes:
            said = stand.interrupt_cfrag_after("Duration", "dims", "start", GEMMA, "--yes")
            assert "the Worker goes on by itself" in said
            stand.deploy_twin()
            stand.until(lambda: stand.status()["phase"] == "blocked")
        for probe in probes:
            assert probe.wrong == []
            assert probe.asked > 10
        assert stand.status()["neverEmbeddable"] == ["long/one"]
        said = finished_by_hand(stand, fails=True)
        assert f"{GEMMA} can't embed long/one" in said
        assert "cfrag dims finish --drop-failed" in said
        assert "long/one" in stand.cfrag("dims", "finish", "--yes", fails=True)
        # In a hurry it would search for a minute what is gone then.
        stand.retire_twin()
        stand.cfrag("dims", "finish", "--drop-failed", "--yes")
    del stand.written["long/one"]
    holds_what_was_written(stand, G2)
    assert [each for each in stand.indexes() if each.startswith("move-")] == [G2]
    assert answers(stand) == []


def test_a_probe_would_notice_vectors_of_two_models(stand: Stand) -> None:
    ours = stand.vectors(G2)["topic/whale"]
    stand.embed(G2, "topic/whale", BASE)
    stand.until(lambda: any(answers(stand)))
    stand.upsert(G2, ours)
    stand.until(lambda: not answers(stand))


def test_no_document_is_lost_by_other_dims(stand: Stand) -> None:
    assert len(stand.written) == COUNT
    stand.deploy_twin()
    with probing(ANSWERS, stand.url(WORKER), stand.url(TWIN)) as probes:
        stand.kill_cfrag_after("WorkerVersion version creat", "dims", "start", LARGE, "--yes")
        stand.fault(target="vectorize", op="upsert", action="kill-after")
        stand.cfrag("dims", "start", "--no-follow")
        stand.deploy_twin()
        stand.write(entry(number) for number in range(COUNT, COUNT + NEW))
        stand.fault(target="ai", action="kill-before")
        stand.write(entry(number, "barrels were sent back") for number in range(CHANGED))
        stand.delete(f"entry/{number:03}" for number in range(100, 100 + CHANGED))

        assert "the replacement can't be finished" in finished_by_hand(stand, fails=True)
        stand.pulumi("preview", "--expect-no-changes")
        stand.until(stand.takes_over, 240)
        assert "may still search generation 2" in finished_by_hand(stand, fails=True)
        # Waits until no isolate does.
        stand.kill_cfrag_after("VectorizeIndex index-g2 deleting", "dims", "finish", "--yes")
        stand.cfrag("dims", "finish", "--yes")
    for probe in probes:
        assert probe.wrong == []
        assert probe.asked > 100
    holds_what_was_written(stand, G3)
    assert [each for each in stand.indexes() if each.startswith("move-")] == [G3]
    stand.pulumi("preview", "--expect-no-changes")


def test_an_abort_in_the_middle_loses_nothing(stand: Stand) -> None:
    with probing(ANSWERS, stand.url(WORKER), stand.url(TWIN)) as probes:
        stand.cfrag("dims", "start", M3, "--yes", "--no-follow")
        stand.deploy_twin()
        stand.write(entry(number) for number in range(COUNT + NEW, COUNT + NEW + 10))
        stand.write([entry(3, "boxes went missing")])
        stand.delete(["entry/200"])
        stand.cfrag("dims", "abort", "--yes")
    for probe in probes:
        assert probe.wrong == []
        assert probe.asked > 10
    holds_what_was_written(stand, G3)
    assert [each for each in stand.indexes() if each.startswith("move-")] == [G3]
    assert stand.rag["embedding"] == {"model": LARGE, "generation": 3}


def test_discarding_says_what_is_lost_and_leaves_an_empty_space(stand: Stand) -> None:
    before = stand.rag
    discard = {"generation": 3, "model": LARGE, "strategy": "discard"}
    stand.configure(before | {"embedding": {"model": SMALL, "generation": 4}, "replacing": discard})
    said = stand.pulumi("preview")
    stand.configure(before)
    assert f"the content of {len(stand.written)} documents will be LOST" in " ".join(said.split())
    with stand.hurry():
        stand.cfrag("dims", "start", SMALL, "--discard", "--yes", "--no-follow")
        stand.until(stand.takes_over)
        stand.written.clear()
        stand.write([topic("whale")])
        stand.cfrag("dims", "finish", "--yes")
    assert [each for each in stand.indexes() if each.startswith("move-")] == [G4]
    service = Service(stand.url(WORKER))
    assert service.search_until("topic/whale", "whale in the ocean") == ["topic/whale"]
    holds_what_was_written(stand, G4)
