from pathlib import Path

import pytest

from tests.tools.test_prerequisites import program
from tools import pulumi_tools
from tools.pulumi_tools import SetupError, build, ensure, usable


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH but for the shell's own tools."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin")
    return folder


def install_cli(folder: Path, version: str, *, host: bool = True) -> None:
    program(folder, "pulumi", version)
    if host:
        program(folder, "pulumi-language-python", "")


def test_a_new_enough_cli_on_path_is_used(path: Path, tmp_path: Path) -> None:
    install_cli(path, "v3.290.0")
    assert ensure(tmp_path / "bin") == f"the Pulumi CLI on PATH ({path / 'pulumi'})"
    assert not (tmp_path / "bin").exists()


def test_a_cli_older_than_the_sdk_is_not_used(path: Path) -> None:
    install_cli(path, "v3.100.0")
    assert not usable("pulumi")


def test_a_cli_without_its_python_host_is_not_used(path: Path) -> None:
    install_cli(path, "v3.290.0", host=False)
    assert not usable("pulumi")


def test_a_cli_that_was_built_before_is_taken_first(path: Path, tmp_path: Path) -> None:
    install_cli(path, "v3.290.0")
    own = tmp_path / "bin"
    own.mkdir()
    install_cli(own, "v3.274.1")
    assert ensure(own) == f"the Pulumi CLI in {own}"


@pytest.mark.parametrize(
    ("go", "found"), [(None, "found none on PATH"), ("go version go1.19.2 x", "found 1.19.2")]
)
def test_without_go_one_line_says_what_is_needed(
    path: Path, tmp_path: Path, go: str | None, found: str
) -> None:
    if go:
        program(path, "go", go)
    with pytest.raises(SetupError, match=rf"Go 1\.21 or newer is needed \({found}\)"):
        build(tmp_path / "bin")


def test_a_build_that_fails_says_why_and_leaves_no_half_made_cli(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulumi_tools, "ROOT", tmp_path)
    program(path, "go", "")
    (path / "go").write_text(
        '#!/bin/sh\n[ "$1" = version ] && echo go1.26.0 && exit\necho disk is full\nexit 1\n'
    )
    with pytest.raises(SetupError, match="building pulumi-language-python failed: disk is full"):
        build(tmp_path / "bin")
    assert list((tmp_path / "bin").iterdir()) == []
