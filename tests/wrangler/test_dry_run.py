"""`cfrag render` for those who deploy with wrangler alone: its newest release takes the project as it is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.bundle import Bundle, render_project
from infra.bundle.manifest import VENDORED
from tests.wrangler.dry_run import dry_run

pytestmark = pytest.mark.xdist_group("wrangler")
# With everything in it that has a place in wrangler's file.
WHOLE: dict[str, Any] = {
    "name": "manual",
    "embedding": {"model": "@cf/baai/bge-m3", "generation": 2},
    "replacing": {"generation": 1, "model": "@cf/baai/bge-base-en-v1.5"},
    "metadata": {"words": {"type": "number"}},
    "queue": {"maxConcurrency": 2},
    "rateLimit": {"limit": 100},
    "cpuMs": 30_000,
    "domain": {"hostname": "rag.example.com", "zoneId": "0" * 32},
}


@dataclass(frozen=True)
class DryRun:
    """A bundle, and what wrangler makes of the project that it was written to."""

    bundle: Bundle
    printed: str
    out: Path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> DryRun:
    folder: Path = tmp_path_factory.mktemp("wrangler")
    (folder / "Pulumi.whole.yaml").write_text(yaml.safe_dump({"config": {"cf-rag:rag": WHOLE}}))
    bundle = render_project("whole", folder / "project", root=folder)
    return DryRun(bundle, dry_run(folder / "project", folder / "out"), folder / "out")


def test_wrangler_would_upload_what_pulumi_uploads(run: DryRun) -> None:
    uploaded = {path.relative_to(run.out).as_posix(): path for path in run.out.rglob("*") if path.is_file()}
    own = {each.name: each.content for each in run.bundle.modules if not each.name.startswith(VENDORED)}
    assert {name: uploaded[name].read_bytes() for name in own} == own
    assert {each.name for each in run.bundle.modules} - uploaded.keys() == set()


def test_wrangler_has_no_complaint(run: DryRun) -> None:
    assert "WARNING" not in run.printed


@pytest.mark.parametrize(
    "binding",
    [
        "env.VECTORIZE (manual-whole-768-g1)",
        "env.VECTORIZE_NEXT (manual-whole-1024-g2)",
        "env.DB (manual-whole-db)",
        "env.RAG_INGEST_QUEUE (manual-whole-ingest)",
        "env.RAG_DLQ (manual-whole-ingest-dlq)",
        "env.RATE_LIMIT (100 requests/60s)",
        "env.AI",
        'env.EMBED_MODEL ("@cf/baai/bge-m3")',
    ],
)
def test_wrangler_sees_every_binding_of_the_stack(run: DryRun, binding: str) -> None:
    assert binding in run.printed
