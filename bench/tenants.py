"""`python -m bench.tenants 1 10 50`: how time and API calls grow with the number of tenants, on a Cloudflare
of this machine that enforces the account's call budget."""

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.table import Table

from cfrag import local_process, output
from cfrag.errors import exit_code
from cfrag.local_process import Running
from cfrag.plugins import ensure_cloudflare_plugin
from cfrag.pulumi_env import ROOT, pulumi_env
from cfrag.tenants import file
from cfrag.tenants.fleet import Fleet
from cfrag.tenants.journal import Journal
from cfrag.tenants.operations import Operations
from cfrag.tenants.report import Report
from cfrag.tenants.stacks import Stacks
from cfrag.tenants.view import Lines
from infra.errors import CfragError

CONFIG: dict[str, Any] = {
    "name": "rag",
    "metadata": {"source": {"type": "string"}, "published": {"type": "number"}},
    "docsPublic": True,
    "allowDataLoss": True,
}
CHANGED = {**CONFIG, "search": {"defaultTopK": 5}}


@dataclass(frozen=True)
class Measured:
    """One operation on all tenants; `cpu` is that of the command, Pulumi and the plugins, in seconds."""

    operation: str
    tenants: int
    seconds: float
    waited: float
    cpu: float
    calls: int
    refused: int
    rendered: int

    def row(self) -> list[str]:
        each = max(self.tenants, 1)
        return [
            self.operation,
            str(self.tenants),
            f"{self.seconds:.0f}",
            f"{self.waited:.0f}",
            f"{self.cpu / each:.1f}",
            str(self.calls),
            f"{self.calls / each:.1f}",
            str(self.refused),
            str(self.rendered),
        ]


class Bench:
    """A fleet that grows on one Cloudflare."""

    def __init__(self, cloudflare: Running, home: Path, parallel: int) -> None:
        self._cloudflare = cloudflare
        self._home = home
        self._parallel = parallel

    def measure(self, count: int) -> Iterator[Measured]:
        """Make `count` tenants, leave them, change the Worker of each, destroy them."""
        yield self._timed("up, new", count, CONFIG, lambda it: it.up(it.tenants.all))
        yield self._timed("up, nothing changed", count, CONFIG, lambda it: it.up(it.tenants.all))
        yield self._timed("up, another Worker", count, CHANGED, lambda it: it.up(it.tenants.all))
        names = names_of(count)
        yield self._timed("destroy", count, CHANGED, lambda it: it.destroy(names))

    def _timed(
        self, operation: str, count: int, config: dict[str, Any], act: Callable[[Operations], Report]
    ) -> Measured:
        operations = self._operations(count, config)
        before, cpu = self._calls(), cpu_seconds()
        report = act(operations)
        after = self._calls()
        if not report.well:
            faults = [outcome.error for outcome in report.outcomes if outcome.error]
            raise CfragError(
                f"{operation} of {count} tenants failed: {faults[0] if faults else 'not started'}"
            )
        return Measured(
            operation,
            count,
            report.seconds,
            report.waited_for_budget,
            cpu_seconds() - cpu,
            after["made"] - before["made"],
            after["refused"] - before["refused"],
            report.rendered,
        )

    def _operations(self, count: int, config: dict[str, Any]) -> Operations:
        path = self._home / "tenants.yaml"
        content = {"defaults": {"config": config}, "tenants": {name: {} for name in names_of(count)}}
        path.write_text(yaml.safe_dump(content))
        stacks = Stacks(self._home / "tenants")
        journal = Journal(stacks.folder / "bench.journal.json")
        return Operations(file.load(path, os.environ), stacks, journal, Fleet(self._parallel, Lines()))

    def _calls(self) -> dict[str, int]:
        calls: dict[str, int] = self._cloudflare.call("GET", "/__local/status")["apiCalls"]
        return calls


def names_of(count: int) -> list[str]:
    return [f"bench-{number:03}" for number in range(count)]


def cpu_seconds() -> float:
    """User and system time of this process and of those it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@contextmanager
def cloudflare_of_its_own() -> Iterator[tuple[Running, Path]]:
    """An empty Cloudflare with an enforced budget, and this process's environment set for it."""
    with tempfile.TemporaryDirectory(prefix="cfrag-bench-") as folder:
        home = Path(folder)
        (home / "cache").symlink_to(ROOT / ".cfrag/cache", target_is_directory=True)
        running = local_process.start(home)
        try:
            running.call(
                "PUT",
                "/__local/settings",
                # As for tenants that nobody asks yet: their Workers don't boot.
                {"apiBudget": True, "warmDeploys": False, "queuesPaused": True, "vectorizeDelaySeconds": 0},
            )
            environment = pulumi_env(home, running.api)
            environment.pop("PULUMI_OPTION_CONFIG_FILE", None)
            ensure_cloudflare_plugin(environment)
            os.environ.update(environment)
            yield running, home
        finally:
            local_process.stop(home)
            shutil.rmtree(home / "local", ignore_errors=True)


def show(measured: Sequence[Measured]) -> None:
    table = Table(
        "operation",
        "tenants",
        "seconds",
        "of it waiting for the budget",
        "CPU s per tenant",
        "API calls",
        "per tenant",
        "refused",
        "bundles rendered",
        box=None,
    )
    for each in measured:
        table.add_row(*each.row())
    output.out.print(table)


def main() -> int:
    """1 where the account refused a call."""
    parser = argparse.ArgumentParser(prog="python -m bench.tenants", description=__doc__)
    parser.add_argument("counts", type=int, nargs="*", default=[1, 10, 50])
    parser.add_argument("--parallel", type=int, default=2)
    options = parser.parse_args()
    measured: list[Measured] = []
    started = time.monotonic()
    try:
        with cloudflare_of_its_own() as (cloudflare, home):
            for count in options.counts:
                for each in Bench(cloudflare, home, options.parallel).measure(count):
                    measured.append(each)
                    output.say("  ".join(each.row()))
    except CfragError as error:
        output.complain(str(error))
        return exit_code(error)
    finally:
        show(measured)
    output.say(f"{time.monotonic() - started:.0f} s in all")
    return int(any(each.refused for each in measured))


if __name__ == "__main__":
    sys.exit(main())
