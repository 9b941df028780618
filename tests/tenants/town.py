"""A Cloudflare with its call budget enforced, and `cfrag tenants` run on it as a person would."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cfrag.plugins import ensure_cloudflare_plugin
from cfrag.pulumi_env import ROOT, pulumi_env
from tests.provider.support import LocalCloudflare

Json = dict[str, Any]
_TIMEOUT = 600


@dataclass
class Town:
    """Tenants of one account. `home` is CFRAG_HOME of the commands; the Cloudflare has its own."""

    cloudflare: LocalCloudflare
    home: Path

    @classmethod
    def found(cls, cloudflare: LocalCloudflare, home: Path) -> "Town":
        home.mkdir()
        (home / "cache").symlink_to(ROOT / ".cfrag/cache", target_is_directory=True)
        # Only the Workers that are asked for something boot.
        settings = {"apiBudget": True, "warmDeploys": False, "queuesPaused": True, "vectorizeDelaySeconds": 0}
        cloudflare.control("PUT", "/__local/settings", settings)
        town = cls(cloudflare, home)
        ensure_cloudflare_plugin(town.environment)
        return town

    @property
    def file(self) -> Path:
        return self.home / "tenants.yaml"

    @property
    def environment(self) -> dict[str, str]:
        """As for an account of anybody: CLOUDFLARE_* and a backend."""
        environment = pulumi_env(self.home, self.cloudflare.api)
        environment.pop("PULUMI_OPTION_CONFIG_FILE", None)
        return environment

    def write(self, defaults: Mapping[str, Any], tenants: Mapping[str, Any]) -> None:
        content = {"defaults": {"config": dict(defaults)}, "tenants": dict(tenants)}
        self.file.write_text(yaml.safe_dump(content, sort_keys=False))

    def tenants(self, *arguments: str, code: int = 0) -> Json:
        """A `cfrag tenants` command's report, its exit code having been checked."""
        command = [*self._command(arguments[0]), "--json", *arguments[1:]]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
        assert "Traceback" not in done.stderr, done.stderr[-3000:]
        report: Json = json.loads(done.stdout)
        return report

    def kill_when(self, moment: Callable[[], bool], *arguments: str) -> None:
        """Start a command and kill it, with everything that it has started, as soon as `moment()` is true."""
        process = subprocess.Popen(
            self._command(*arguments),
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not moment():
                assert process.poll() is None, "the command ended before it could be killed"
                time.sleep(0.05)
        finally:
            for pid in [process.pid, *descendants(process.pid)]:
                os.kill(pid, signal.SIGKILL)
            process.wait()

    def status_of(self, report: Json) -> dict[str, str]:
        return {each["tenant"]: each["status"] for each in report["tenants"]}

    def holds(self) -> dict[str, list[str]]:
        """Names of all that the account holds."""
        client, account = self.cloudflare.client, self.cloudflare.account
        listed: dict[str, list[Any]] = {
            "indexes": [each.name for each in client.vectorize.indexes.list(account_id=account)],
            "databases": [each.name for each in client.d1.database.list(account_id=account)],
            "queues": [each.queue_name for each in client.queues.list(account_id=account)],
            "workers": [each.name for each in client.workers.beta.workers.list(account_id=account)],
        }
        return {kind: sorted(map(str, names)) for kind, names in listed.items()}

    def workers(self) -> list[str]:
        """Names of the Workers, in a look that costs the account no call."""
        return [each["name"] for each in self.cloudflare.control("GET", "/__local/status")["workers"]]

    def keys(self, folder: Path, *options: str) -> dict[str, str]:
        """Every tenant's internal secret, as a command of `tenants run` is given it."""
        folder.mkdir(exist_ok=True)
        script = f'printf %s "$CFRAG_KEY" > "{folder}/$CFRAG_TENANT"; echo "key: $CFRAG_KEY"'
        done = subprocess.run(
            [*self._command("run"), *options, "--", "sh", "-c", script],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        keys = {path.name: path.read_text() for path in folder.iterdir()}
        for key in keys.values():
            assert key not in done.stdout + done.stderr
        assert done.stdout.count("key: [key]") == len(keys)
        return keys

    def _command(self, name: str, *arguments: str) -> list[str]:
        command = [sys.executable, "-m", "cfrag", "tenants", name, "--file", str(self.file)]
        return command + list(arguments)


def descendants(pid: int) -> list[int]:
    """All processes that a process has started, and theirs."""
    shown = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [(int(child), int(parent)) for child, parent in map(str.split, shown.stdout.splitlines())]
    found, wanted = [], [pid]
    while wanted:
        below = [child for child, parent in pairs if parent in wanted]
        found += below
        wanted = below
    return found
