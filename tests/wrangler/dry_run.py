"""`wrangler deploy --dry-run`, of the newest release of wrangler on the Node that it wants."""

import os
import subprocess
from pathlib import Path

from tests.worker_http.installed import npm_packages

HERE = Path(__file__).parent


def dry_run(project: Path, out: Path) -> str:
    """What it prints; the modules that it would upload are then in `out`."""
    modules = npm_packages(HERE)
    done = subprocess.run(
        [
            *(modules / "node/bin/node", modules / "wrangler/bin/wrangler.js"),
            *("deploy", "--dry-run", "--outdir", out),
        ],
        cwd=project,
        # No account and no home: nothing of this machine's own wrangler.
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(out.parent),
            "NO_COLOR": "1",
            "WRANGLER_SEND_METRICS": "false",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout + done.stderr
