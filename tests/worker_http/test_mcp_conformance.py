"""Every scenario of the official conformance runner that applies to a server with tools alone."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .deployed import Deployment
from .installed import HERE, npm_packages
from .keyproxy import key_proxy

Checks = list[dict[str, Any]]

# Scenarios of each version, with the checks that can't apply here and why.
NO_PROMPTS = "the server declares neither prompts nor resources"
NO_DIAGNOSTICS = "asks for diagnostic tools of the reference server"
SCENARIOS: dict[str, dict[str, dict[str, str]]] = {
    "2025-06-18": {"server-initialize": {}, "ping": {}, "tools-list": {}},
    "2025-11-25": {"server-initialize": {}, "ping": {}, "tools-list": {}, "dns-rebinding-protection": {}},
    "2026-07-28": {
        "server-stateless": {
            "sep-2575-server-rejects-undeclared-capability": NO_DIAGNOSTICS,
            "sep-2575-missing-capability-http-400": NO_DIAGNOSTICS,
            "sep-2575-http-server-no-independent-requests-on-stream": NO_DIAGNOSTICS,
            "sep-2575-server-no-log-without-loglevel": NO_DIAGNOSTICS,
        },
        "tools-list": {},
        "dns-rebinding-protection": {},
        "server-sse-multiple-streams": {},
        "http-header-validation": {},
        "input-required-result-unsupported-methods": {},
        "caching": {
            "sep-2549-prompts-list-caching-hints": NO_PROMPTS,
            "sep-2549-resources-list-caching-hints": NO_PROMPTS,
            "sep-2549-resources-templates-list-caching-hints": NO_PROMPTS,
        },
    },
}

# Why the others don't apply; a scenario of a later runner that is in neither list fails the test below.
ELSEWHERE = {
    "completion-": "the server completes nothing",
    "logging-": "the server sends no log messages",
    "prompts-": NO_PROMPTS,
    "resources-": NO_PROMPTS,
    "sep-2164-": NO_PROMPTS,
    "sep-2640-": "an extension: skills",
    "tasks-": "an extension: tasks",
    "tools-call-": NO_DIAGNOSTICS,
    "json-schema-": NO_DIAGNOSTICS,
    "elicitation-": "the server asks its client nothing",
    "input-required-result-": "the server asks its client nothing",
    "http-custom-header-": "no tool asks for arguments to be repeated in headers",
    "server-session-lifecycle": "the server keeps no sessions",
    "server-sse-polling": "the server keeps no sessions",
    "server-sse-multiple-streams": "before 2026-07-28 it is about sessions",
}


class Runner:
    """The runner, on the Node that it needs."""

    def __init__(self, modules: Path, url: str) -> None:
        self._node = modules / "node" / "bin" / "node"
        self._script = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
        self._url = url

    def scenarios(self) -> set[str]:
        """Names of all server scenarios that the runner knows."""
        server_part = self._run("list").stdout.partition("Client scenarios")[0]
        return {line.split()[1] for line in server_part.splitlines() if line.startswith("  - ")}

    def checks(self, scenario: str, version: str, folder: Path) -> Checks:
        """Checks of one scenario, as the runner writes them down."""
        server = ["server", "--url", f"{self._url}/mcp", "-o", str(folder)]
        done = self._run(*server, "--scenario", scenario, "--spec-version", version)
        reports = list(folder.rglob("checks.json"))
        assert len(reports) == 1, done.stdout + done.stderr
        found: Checks = json.loads(reports[0].read_text())
        return found

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # The runner exits with 1 where any check failed; what counts is read from its report.
        command = [str(self._node), str(self._script), *arguments]
        environment = {**os.environ, "NO_COLOR": "1"}
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


@pytest.fixture(scope="module")
def runner(deployment: Deployment) -> Iterator[Runner]:
    modules = npm_packages(HERE / "conformance")
    with key_proxy(deployment.url, deployment.key("read", "write")) as url:
        yield Runner(modules, url)


@pytest.mark.parametrize(
    ("version", "scenario"), [(version, scenario) for version, each in SCENARIOS.items() for scenario in each]
)
def test_a_scenario_of_the_official_runner_passes(
    runner: Runner, tmp_path: Path, version: str, scenario: str
) -> None:
    checks = runner.checks(scenario, version, tmp_path)
    failed = {check["id"] for check in checks if check["status"] == "FAILURE"}
    assert failed == SCENARIOS[version][scenario].keys(), json.dumps(checks)[:3000]
    assert any(check["status"] == "SUCCESS" for check in checks)


def test_every_scenario_is_run_or_has_a_reason_not_to_be(runner: Runner) -> None:
    run_here = {scenario for each in SCENARIOS.values() for scenario in each}
    others = runner.scenarios() - run_here
    assert others
    assert {name for name in others if not name.startswith(tuple(ELSEWHERE))} == set()
