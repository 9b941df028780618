import stat
from importlib.metadata import version
from pathlib import Path

import pytest

from cfrag import plugins
from cfrag.plugins import ensure_cloudflare_plugin, folder_digest
from cfrag.pulumi_env import pulumi_env

VERSION = version("pulumi-cloudflare")
INSTALLED = f"pulumi/home/plugins/resource-cloudflare-v{VERSION}/pulumi-resource-cloudflare"


@pytest.fixture(autouse=True)
def nobodys_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Pulumi home of a person who has no plugins yet."""
    home = tmp_path / "person"
    monkeypatch.setenv("PULUMI_HOME", str(home))
    return home


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_where_there_is_no_official_plugin_the_stand_in_is_installed_once(tmp_path: Path) -> None:
    environment = pulumi_env(tmp_path)
    assert ensure_cloudflare_plugin(environment) == "stand-in"
    installed = tmp_path / INSTALLED
    first = installed.stat().st_ctime_ns
    assert ensure_cloudflare_plugin(environment) == "stand-in"
    assert installed.stat().st_ctime_ns == first


def test_a_stand_in_that_has_changed_is_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    monkeypatch.setattr(plugins, "STAND_IN", source)
    for text in ("#!/bin/sh\n# one", "#!/bin/sh\n# two"):
        executable(source / "pulumi-resource-cloudflare", text)
        ensure_cloudflare_plugin(pulumi_env(tmp_path))
        assert (tmp_path / INSTALLED).read_text() == text


def test_a_persons_official_plugin_is_used_and_left_as_it_is(tmp_path: Path, nobodys_plugins: Path) -> None:
    theirs = nobodys_plugins / f"plugins/resource-cloudflare-v{VERSION}/pulumi-resource-cloudflare"
    executable(theirs, "#!/bin/sh\n# official")
    assert ensure_cloudflare_plugin(pulumi_env(tmp_path)) == "official"
    assert (tmp_path / INSTALLED).read_text() == "#!/bin/sh\n# official"
    assert list(theirs.parent.parent.iterdir()) == [theirs.parent]


def test_a_plugin_of_another_version_is_not_used(tmp_path: Path, nobodys_plugins: Path) -> None:
    executable(nobodys_plugins / "plugins/resource-cloudflare-v5.0.0/pulumi-resource-cloudflare", "#!/bin/sh")
    assert ensure_cloudflare_plugin(pulumi_env(tmp_path)) == "stand-in"


def test_the_digest_follows_names_and_contents_and_no_caches(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    first = folder_digest(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/a.pyc").write_text("compiled")
    assert folder_digest(tmp_path) == first
    (tmp_path / "a").rename(tmp_path / "b")
    assert folder_digest(tmp_path) != first
