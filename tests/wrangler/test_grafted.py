"""A host that has got the service deploys with wrangler as before."""

import shutil
from pathlib import Path

import pytest

from cfrag.graft import host, plan
from cfrag.pulumi_env import ROOT
from infra.config import RagConfig
from tests.wrangler.dry_run import dry_run

pytestmark = pytest.mark.xdist_group("wrangler")


def test_wrangler_takes_the_host_with_its_own_bindings_and_the_services(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(ROOT / "examples/graft_host/plain", tmp_path / "host"))
    wish = plan.Wish(RagConfig(name="docs"), "test", auth="secret")
    plan.make(host.find(folder), wish).write()
    printed = dry_run(folder, tmp_path / "out")
    for binding in (
        "env.DB (notes)",
        "env.RAG_DB (docs-test-db)",
        "env.MAIL (notes-mail)",
        "env.RAG_INGEST_QUEUE (docs-test-ingest)",
        "env.VECTORIZE (docs-test-768-g1)",
    ):
        assert binding in printed
    assert (tmp_path / "out/rag/graft.py").read_bytes() == (folder / "src/rag/graft.py").read_bytes()
