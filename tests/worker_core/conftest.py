"""A Worker's core on this machine's engines, without workerd around it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.config import RagConfig
from local.ai.service import EmbeddingService
from local.vectorize.service import VectorizeService
from tests.worker_core.loading import Version, render
from tests.worker_core.platform_bindings import D1, Ai, Platform, Queue, Vectorize

CONFIG: dict[str, Any] = {
    "name": "core",
    "embedding": {"model": "@cf/baai/bge-small-en-v1.5"},
    "metadata": {
        "chapter": {"type": "string", "enum": ["statements", "types"]},
        "year": {"type": "number"},
        "draft": {"type": "boolean"},
        "note": {"type": "string", "filterable": False},
    },
    "tags": {"maxPerDocument": 2},
}


def config(**changes: Any) -> RagConfig:
    return RagConfig.from_pulumi({**CONFIG, **changes})


@pytest.fixture(scope="session")
def render_version(tmp_path_factory: pytest.TempPathFactory) -> Callable[[RagConfig], Version]:
    """Render a config and load its modules: each call is a new isolate."""
    rendered: dict[str, Path] = {}

    def version(wanted: RagConfig) -> Version:
        key = wanted.model_dump_json()
        if key not in rendered:
            rendered[key] = render(wanted, tmp_path_factory.mktemp("bundle"))
        return Version(rendered[key])

    return version


@pytest.fixture(scope="session")
def _worker(render_version: Callable[[RagConfig], Version]) -> Version:
    return render_version(config())


@pytest.fixture
def worker(_worker: Version) -> Version:
    """The Worker of `CONFIG`, as just started."""
    _worker.model_state.forget()
    return _worker


@pytest.fixture(scope="session")
def ai() -> EmbeddingService:
    return EmbeddingService()


@pytest.fixture
def platform(tmp_path: Path, ai: EmbeddingService) -> Iterator[Platform]:
    """An account with the index of `CONFIG`, where writes can be seen at once."""
    vectorize = VectorizeService(tmp_path / "vectorize.sqlite")
    create_index(vectorize, "g1", config())
    yield Platform(vectorize, ai)
    vectorize.close()


def create_index(vectorize: VectorizeService, name: str, wanted: RagConfig) -> None:
    vectorize.create(name, None, wanted.model.dims, wanted.embedding.metric)
    for index in wanted.metadata_indexes():
        vectorize.create_metadata_index(name, index.property_name, index.type)


@pytest.fixture
def b(worker: Version, platform: Platform) -> Any:
    """The bindings of the Worker of `CONFIG`."""
    return bind(worker, platform, config())


def bind(version: Version, platform: Platform, wanted: RagConfig, **changes: Any) -> Any:
    """Bindings as a deployment of `wanted` has them."""
    bindings = version.bindings
    given: dict[str, Any] = {
        "db": D1(platform),
        "ai": Ai(platform),
        "vectorize": Vectorize(platform, f"g{wanted.embedding.generation}"),
        "queue": Queue(platform, platform.queued),
        "dlq": Queue(platform, platform.dead),
        "vars": bindings.Vars(wanted.model.name, wanted.model.dims, wanted.embedding.generation, True),
    }
    return bindings.Bindings(**{**given, **changes})


@pytest.fixture
def doc(worker: Version) -> Callable[..., Any]:
    """Make a document; give what matters."""

    def make(doc_id: str = "a", body: str = "A while loop repeats its block.", **given: Any) -> Any:
        return worker.schemas.Document(id=doc_id, body=body, **given)

    return make
