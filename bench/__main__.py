"""`python -m bench`: round trips on the stack that `make demo` has deployed, next to what they may be."""

import argparse
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
from rich.table import Table

from bench import ingestion
from bench.ingestion import IngestQueue
from bench.operations import count, counting, operations
from cfrag import local_process, output
from cfrag.errors import exit_code
from cfrag.local_process import Running
from cfrag.local_stack import LocalStack
from cfrag.pulumi_env import STACK, config_file, pulumi_env
from infra.bundle import store
from infra.bundle.project import stack_config
from infra.config import RagConfig
from infra.errors import CfragError


def main() -> int:
    """1 where an operation needs more calls than the design allows it."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--documents", type=int, default=1000, help="how many to ingest in each way; 0: leave that out"
    )
    documents: int = parser.parse_args().documents
    try:
        cloudflare = local_process.need(store.home())
        stack = LocalStack(store.home(), pulumi_env(store.home(), cloudflare.api))
        url = os.environ.get("CFRAG_URL") or stack.outputs()["url"]
    except CfragError as error:
        output.complain(str(error))
        return exit_code(error)
    run = secrets.token_hex(4)
    with counting(cloudflare), _warm(url, stack.internal_secret) as client:
        over = _show_operations(cloudflare, client, run)
        if documents:
            _show_ingestion(cloudflare, client, run, documents)
    return int(over)


@contextmanager
def _warm(url: str, secret: str) -> Iterator[httpx.Client]:
    """A client of a Worker that has booted and knows the model's state."""
    headers = {"authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        client.get("/v1/stats").raise_for_status()
        yield client


def _show_operations(cloudflare: Running, client: httpx.Client, run: str) -> bool:
    table = Table("operation", "D1", "AI", "Vectorize", "allowed", box=None)
    over = False
    for operation in operations(run):
        seen = count(cloudflare, client, operation)
        over |= any(used > allowed for used, allowed in zip(seen, operation.allowed, strict=True))
        table.add_row(operation.name, *map(str, seen), " / ".join(map(str, operation.allowed)))
    output.out.print(table)
    return over


def _show_ingestion(cloudflare: Running, client: httpx.Client, run: str, documents: int) -> None:
    config = RagConfig.from_pulumi(stack_config(STACK, config_file(store.home()).parent))
    table = Table("documents", "ingested", "D1", "AI", "Vectorize", "seconds", box=None)
    with closing(IngestQueue(cloudflare, config.names(STACK).ingest)) as queue:
        for each in ingestion.compare(cloudflare, client, queue, run, documents):
            table.add_row(str(documents), each.way, *map(str, each.calls), f"{each.seconds:.1f}")
    output.out.print()
    output.out.print(table)


if __name__ == "__main__":
    sys.exit(main())
