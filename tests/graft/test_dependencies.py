"""Packages put into a host's pyproject.toml."""

import tomllib

import pytest

from cfrag.graft import dependencies

WANTED = ["fastapi", "workers-runtime-sdk>=1.6.15"]


@pytest.mark.parametrize(
    "host",
    [
        '[project]\nname = "a"\ndependencies = []\n',
        '[project]\nname = "a"\ndependencies = ["httpx[http2]>=0.28"]\n',
        '[project]\nname = "a"\ndependencies = [\n  "httpx[http2]", # with HTTP/2\n]\n[tool.x]\ny = 1\n',
        '[project]\ndependencies = [\n  "httpx"\n]\n',
        '[project]\ndependencies = ["Fast_API"]\n'.replace("Fast_API", "FastAPI==0.1"),
    ],
)
def test_what_is_missing_is_added_behind_what_is_there(host: str) -> None:
    merged = dependencies.merge(host, WANTED)
    assert merged is not None
    before = tomllib.loads(host)["project"]["dependencies"]
    after = tomllib.loads(merged)["project"]["dependencies"]
    assert after == [*before, *dependencies.missing(host, WANTED)]
    assert dependencies.missing(merged, WANTED) == []
    assert dependencies.merge(merged, WANTED) == merged


def test_a_version_that_the_host_has_chosen_stays() -> None:
    host = '[project]\ndependencies = ["FastAPI==0.1", "workers_runtime_sdk"]\n'
    assert dependencies.merge(host, WANTED) == host


@pytest.mark.parametrize(
    "host",
    [
        '[project]\nname = "a"\n',
        '[project]\ndynamic = ["dependencies"]\n',
        "",
        'project = {dependencies = ["a"]}\n',
    ],
)
def test_where_only_a_person_can_tell_how_nothing_is_done(host: str) -> None:
    assert dependencies.merge(host, WANTED) is None
