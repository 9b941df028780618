"""The official package, imported in part; whoever needs the rest has it."""

import subprocess
import sys

SCRIPT = """
import sys
from infra import cloudflare
assert "pulumi_cloudflare.zone" not in sys.modules, "the whole package was imported"
import pulumi_cloudflare
assert pulumi_cloudflare.Zone.__module__ == "pulumi_cloudflare.zone"
assert pulumi_cloudflare.Queue is cloudflare.Queue
"""


def test_only_what_a_stack_uses_is_imported_and_all_of_it_can_be() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
