"""Bundles kept by their digest."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from infra.bundle import Bundle, Module, store
from infra.bundle.manifest import assemble, module
from infra.errors import BundleError


def bundle(text: str = "x = 1\n") -> Bundle:
    own = [module("entry.py", text.encode()), module("rag/core.py", b"y = 2\n")]
    vendored = [
        module("python_modules/thing/__init__.py", b""),
        module("python_modules/thing/lib.so", b"\0\1"),
    ]
    return assemble(own, vendored, {"thing": "1.0"}, size=123)


def test_what_is_saved_is_loaded_again(tmp_path: Path) -> None:
    digest = store.save(bundle(), tmp_path)
    assert store.load(tmp_path, digest) == bundle()


def test_modules_lie_in_a_folder_under_their_names(tmp_path: Path) -> None:
    digest = store.save(bundle(), tmp_path)
    folder = tmp_path / "bundles" / digest / "modules"
    assert (folder / "entry.py").read_text() == "x = 1\n"
    assert (folder / "python_modules/thing/lib.so").read_bytes() == b"\0\1"


def test_saving_again_changes_nothing(tmp_path: Path) -> None:
    assert store.save(bundle(), tmp_path) == store.save(bundle(), tmp_path)
    assert len(list((tmp_path / "bundles").iterdir())) == 1


def test_the_digest_covers_names_types_and_contents() -> None:
    base = bundle()
    first, *rest = base.modules
    others = [
        first._replace(name="other.py"),
        first._replace(content_type="text/plain"),
        first._replace(content=b"changed"),
    ]
    digests = {assemble([other, *rest], [], {}, 0).digest for other in others}
    assert len(digests | {base.digest}) == 4


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    digest = store.save(bundle(), tmp_path)
    (tmp_path / "bundles" / digest / "modules" / "rag" / "core.py").write_text("z = 3\n")
    with pytest.raises(BundleError, match="was changed after it was rendered"):
        store.load(tmp_path, digest)


@pytest.mark.parametrize("missing", ["bundle.json", "modules/entry.py"])
def test_a_missing_file_is_named_with_the_way_out(tmp_path: Path, missing: str) -> None:
    digest = store.save(bundle(), tmp_path)
    (tmp_path / "bundles" / digest / missing).unlink()
    with pytest.raises(BundleError, match="run `pulumi up`.*" + Path(missing).name):
        store.load(tmp_path, digest)


def test_only_the_newest_few_are_kept(tmp_path: Path) -> None:
    digests = []
    for number in range(8):
        digests.append(store.save(bundle(f"x = {number}\n"), tmp_path))
        os.utime(tmp_path / "bundles" / digests[-1], (number, number))
    kept = {path.name for path in (tmp_path / "bundles").iterdir()}
    assert kept == set(digests[-5:])


def test_a_bundle_that_may_still_be_uploaded_is_kept(tmp_path: Path) -> None:
    digests = [store.save(bundle(f"x = {number}\n"), tmp_path) for number in range(12)]
    assert {store.load(tmp_path, digest).digest for digest in digests} == set(digests)


def test_bundles_share_the_files_that_are_the_same(tmp_path: Path) -> None:
    one, other = (store.save(bundle(text), tmp_path) for text in ("x = 1\n", "x = 2\n"))
    folders = [tmp_path / "bundles" / digest / "modules" for digest in (one, other)]
    vendored, own = (
        [folder / name for folder in folders] for name in ("python_modules/thing/lib.so", "entry.py")
    )
    assert vendored[0].samefile(vendored[1])
    assert not own[0].samefile(own[1])
    assert own[0].read_text() == "x = 1\n"


def test_a_bundle_in_use_is_not_the_oldest(tmp_path: Path) -> None:
    first = store.save(bundle(), tmp_path)
    os.utime(tmp_path / "bundles" / first, (1, 1))
    for number in range(10):
        store.save(bundle(f"x = {number + 10}\n"), tmp_path)
        store.save(bundle(), tmp_path)
    assert store.load(tmp_path, first) == bundle()


def test_home_is_in_the_project_unless_the_environment_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CFRAG_HOME", raising=False)
    assert store.home() == Path(__file__).resolve().parents[3] / ".cfrag"
    monkeypatch.setenv("CFRAG_HOME", str(tmp_path))
    assert store.home() == tmp_path


def test_size_is_no_part_of_the_digest() -> None:
    assert replace(bundle(), gzip_bytes=9).digest == bundle().digest
    assert isinstance(bundle().modules[0], Module)


def test_a_bundle_that_was_used_a_moment_ago_is_kept_whatever_comes(tmp_path: Path) -> None:
    """Many stacks with configs of their own are deployed side by side, and read what they have saved."""
    digests = [store.save(bundle(f"x = {number}\n"), tmp_path) for number in range(20)]
    assert [store.load(tmp_path, digest).digest for digest in digests] == digests
