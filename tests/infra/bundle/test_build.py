"""From a config to a bundle."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from infra.bundle import Renderings, render, shown_size
from infra.bundle.templates import TEMPLATE
from infra.catalog import WORKER_GZIP_BYTES
from infra.config import RagConfig
from infra.errors import BundleError


def config(**values: Any) -> RagConfig:
    return RagConfig.from_pulumi({"name": "docs", **values})


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """A copy of the Worker's template to change."""
    return shutil.copytree(TEMPLATE, tmp_path / "template", ignore=shutil.ignore_patterns("__pycache__"))


def test_the_same_config_is_the_same_bundle() -> None:
    assert render(config()) == render(config())


def test_another_config_is_another_bundle_and_the_manifest_names_what_changed() -> None:
    one, other = render(config()), render(config(search={"defaultTopK": 7}))
    assert one.digest != other.digest
    changed = {name for name in one.manifest if one.manifest[name] != other.manifest[name]}
    # The dashboard offers the default as well.
    assert changed == {"rag/settings.py", "rag/dashboard/page.py"}


def test_the_manifest_names_own_modules_by_hash_and_packages_by_version() -> None:
    bundle = render(config())
    own = {
        module.name: module.sha256
        for module in bundle.modules
        if not module.name.startswith("python_modules/")
    }
    assert own.items() <= bundle.manifest.items()
    assert bundle.manifest["workers-runtime-sdk"].count(".") == 2
    assert not any(name.startswith("python_modules/") for name in bundle.manifest)


def test_modules_are_sorted_and_unique_and_the_main_one_is_among_them() -> None:
    bundle = render(config())
    names = [module.name for module in bundle.modules]
    assert names == sorted(set(names))
    assert bundle.main_module in names
    assert "python_workers" in bundle.compatibility_flags


def test_the_bundle_is_below_cloudflares_limit_and_says_so() -> None:
    bundle = render(config())
    assert bundle.gzip_bytes < WORKER_GZIP_BYTES.value
    assert shown_size(bundle).endswith("of 3 MiB gzipped")


def test_a_bundle_over_the_limit_is_refused_with_its_size_and_its_largest_files(template: Path) -> None:
    noise = random.Random(7).randbytes(WORKER_GZIP_BYTES.value - 1_000_000)
    (template / "src" / "rag" / "noise.bin").write_bytes(noise)
    with pytest.raises(BundleError) as caught:
        render(config(), template=template)
    assert "at most 3,145,728 allowed" in str(caught.value)
    assert "largest: rag/noise.bin 2,145,728 bytes" in str(caught.value)


def test_many_stacks_of_one_process_share_one_rendering_per_config(template: Path) -> None:
    renderings = Renderings()
    with renderings.shared():
        first = render(config(), template=template)
        shutil.rmtree(template)  # what is rendered a second time would fail
        assert render(config(), template=template) is first
        assert len(renderings) == 1
        assert render(config(search={"defaultTopK": 7})).digest != first.digest
        assert len(renderings) == 2
    assert render(config()) is not first
    assert len(renderings) == 2
