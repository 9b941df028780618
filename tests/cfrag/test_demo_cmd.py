"""The demo from end to end: real Pulumi CLI, rendered Worker, real documents."""

import json
import re
import shlex

import httpx

from cfrag.demo_cmd import EXAMPLES
from tests.deployed import Deployed


def test_the_demo_deploys_ingests_and_finds(deployed: Deployed) -> None:
    output = deployed.first_run.output
    assert re.search(r"\d+ created", output)
    assert re.search(r"(\d+) documents: \1 indexed, 0 skipped, 0 failed", output)
    for example in EXAMPLES:
        assert shlex.join([example.query, *example.options]) in output, "on one line, to be copied"
    assert f"{deployed.url}/docs" in output
    assert f"dashboard:        {deployed.url}/ " in output
    assert "make stop" in output


def test_a_second_demo_changes_nothing_and_embeds_nothing(deployed: Deployed) -> None:
    deployed.cloudflare.call("POST", "/__local/calls/reset")
    run = deployed.demo()
    assert run.returncode == 0, run.output
    assert re.search(r"(\d+) documents: 0 indexed, \1 skipped, 0 failed", run.output), run.output
    assert re.search(r"\d+ unchanged", run.output), run.output
    assert not re.search(r"\d+ (created|updated|replaced|deleted)", run.output), run.output
    assert run.seconds < 30
    calls = deployed.cloudflare.call("GET", "/__local/calls")
    assert calls["ai"] == {"run": len(EXAMPLES)}, "only the searches may embed anything"
    assert "upsert" not in calls["vectorize"]


def test_the_pages_that_the_demo_names_are_there(deployed: Deployed) -> None:
    assert httpx.get(f"{deployed.url}/docs").status_code == 200
    assert "<!doctype html>" in httpx.get(f"{deployed.url}/").text.lower()
    assert "/v1/search" in httpx.get(f"{deployed.url}/openapi.json").json()["paths"]


def test_search_from_the_command_line_finds_what_the_demo_finds(deployed: Deployed) -> None:
    for example in EXAMPLES:
        done = deployed.cfrag("search", example.query, *example.options, "--json")
        assert done.returncode == 0, done.stderr
        hits = json.loads(done.stdout)["hits"]
        assert hits[0]["id"].startswith(example.first)


def test_filters_hold_for_every_hit(deployed: Deployed) -> None:
    done = deployed.cfrag(
        "search", "a method", "-k", "50", "-w", "words>=20", "-w", "words<40", "-t", "method", "--json"
    )
    hits = json.loads(done.stdout)["hits"]
    assert len(hits) > 5
    assert all(20 <= hit["metadata"]["words"] < 40 and "method" in hit["tags"] for hit in hits)


def test_a_filter_on_a_field_that_is_not_declared_is_refused_by_name(deployed: Deployed) -> None:
    done = deployed.cfrag("search", "x", "-w", "author=Ann")
    assert done.returncode == 4
    assert "author" in done.stderr
    assert "chapter" in done.stderr


def test_a_wrong_key_is_refused(deployed: Deployed) -> None:
    answer = httpx.get(f"{deployed.url}/v1/stats", headers={"authorization": "Bearer wrong"})
    assert answer.status_code == 401


def test_stats_count_the_corpus(deployed: Deployed) -> None:
    done = deployed.cfrag("stats", "--json")
    stats = json.loads(done.stdout)
    assert stats["dims"] == 768
    assert stats["documents"]["total"] >= 400


def test_the_state_holds_no_secret_in_clear(deployed: Deployed) -> None:
    state = deployed.stack.run("stack", "export")
    assert deployed.key not in state
    assert deployed.cloudflare.token not in state
