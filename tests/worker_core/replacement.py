"""A stack on its way from one space to another: its versions, their isolates, and what they must agree on."""

from collections.abc import Callable
from typing import Any

from infra.config import RagConfig
from infra.replacement import Spaces
from tests.worker_core.conftest import config, create_index
from tests.worker_core.loading import Version
from tests.worker_core.platform_bindings import Platform, Vectorize
from tests.worker_core.test_model_state import Deployment

BASE, GEMMA, M3 = "@cf/baai/bge-base-en-v1.5", "@cf/google/embeddinggemma-300m", "@cf/baai/bge-m3"
TOPICS = [
    "A while loop repeats its block as long as the condition holds.",
    "The comet's tail always points away from the sun.",
    "Knead the bread dough until it is smooth and elastic.",
    "The violin is tuned in perfect fifths.",
    "A bank account bears interest every year.",
    "Penguins keep their eggs warm on their feet.",
    "The hot spring smells of sulphur.",
    "A rook moves along ranks and files.",
]
TEXTS = {f"d{at}": text for at, text in enumerate(TOPICS)}
# Questions in other words than the documents', and the one right answer to each.
PROBES = {
    "which way does a comet point": "d1",
    "how long to knead dough for bread": "d2",
    "tuning of a violin": "d3",
    "penguins and their eggs": "d5",
}


class Replacement:
    """Versions of one stack: `old` in generation 3, `both` while it is replaced, `new` in generation 4."""

    def __init__(
        self, render: Callable[[RagConfig], Version], platform: Platform, model: str = M3, **embedding: Any
    ) -> None:
        self.render, self.platform = render, platform
        self.old_config = config(embedding={"model": BASE, "generation": 3})
        self.new_config = config(embedding={"model": model, "generation": 4, **embedding})
        self.strategy = "reindex"
        create_index(platform.vectorize, "g3", self.old_config)

    def create_new_index(self) -> None:
        create_index(self.platform.vectorize, "g4", self.new_config)

    def deploy(self, wanted: RagConfig, replacing: bool = False, **changes: Any) -> Deployment:
        """A new isolate of a version."""
        version = self.render(wanted)
        bindings = version.bindings
        replaced = bindings.Replaced(3, BASE, 768, "cosine", self.strategy) if replacing else None
        given: dict[str, Any] = {
            "vars": bindings.Vars(
                wanted.model.name, wanted.model.dims, wanted.embedding.generation, True, replaced
            )
        }
        if replacing and self.strategy == "reindex":
            given["vectorize"] = Vectorize(self.platform, "g3")
            given["vectorize_next"] = Vectorize(self.platform, "g4")
        vars(version.retries)["DELAYS"] = (0, 0)
        return Deployment(version, self.platform, wanted, **{**given, **changes})

    def old(self) -> Deployment:
        return self.deploy(self.old_config)

    def both(self) -> Deployment:
        return self.deploy(self.new_config, replacing=True)

    def new(self) -> Deployment:
        return self.deploy(self.new_config)

    def activate(self, wanted: RagConfig) -> None:
        """What `SpaceActivation` does."""
        self.platform.set_meta(
            desired_fingerprint=wanted.fingerprint(), desired_generation=str(wanted.embedding.generation)
        )
        self.platform.queued.append({"body": {"kind": "sweep", "cursor": ""}})

    async def begun(self, texts: dict[str, str] | None = None) -> Deployment:
        """The old version with its documents, then a version that replaces it, activated."""
        old = self.old()
        self.activate(self.old_config)
        await old.ingest(texts or TEXTS)
        await old.drain()
        self.create_new_index()
        both = self.both()
        self.activate(self.new_config)
        return both

    async def go_on(self, deployment: Deployment, minutes: float = 6) -> None:
        """Time passes, a request comes, and the queue is worked off."""
        self.platform.pass_minutes(minutes)
        deployment.look_again()
        await deployment.stats()
        await deployment.drain()

    async def cut_over(self, deployment: Deployment) -> None:
        for _ in range(6):
            if self.spaces.cut_over_to(4):
                return
            await self.go_on(deployment)
        raise AssertionError(f"no cut-over: {self.platform.meta()['space']}")

    @property
    def spaces(self) -> Spaces:
        found = Spaces.of(self.platform.meta())
        assert found is not None
        return found

    def under_way(self) -> bool:
        return self.spaces.other is not None

    def contents(self, index: str) -> dict[str, str]:
        """What an index holds, document by document."""
        name = index
        ids = [row["id"] for row in self.platform.vectorize.list_vectors(name, 1000, None)["vectors"]]
        found: dict[str, str] = {}
        for at in range(0, len(ids), 20):
            for each in self.platform.vectorize.get_by_ids(name, ids[at : at + 20]):
                found[each["id"]] = each["metadata"]["rawBody"]
        return found


async def probe(deployment: Deployment, probes: dict[str, str] = PROBES) -> None:
    """Every known question has its known answer."""
    for question, expected in probes.items():
        hits = await deployment.search(question)
        assert hits, f"{question}: nothing found"
        assert hits[0].id == expected, f"{question}: {[hit.id for hit in hits]}"
