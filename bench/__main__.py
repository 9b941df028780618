"""`python -m bench`: round trips on the stack that `make demo` has deployed, next to what they may be."""

import os
import secrets
import sys

import httpx
from rich.table import Table

from bench.operations import count, counting, operations
from cfrag import local_process, output
from cfrag.errors import exit_code
from cfrag.local_stack import LocalStack
from cfrag.pulumi_env import pulumi_env
from infra.bundle import store
from infra.errors import CfragError


def main() -> int:
    """1 where an operation needs more calls than the design allows it."""
    try:
        cloudflare = local_process.need(store.home())
        stack = LocalStack(store.home(), pulumi_env(store.home(), cloudflare.api))
        url = os.environ.get("CFRAG_URL") or stack.outputs()["url"]
    except CfragError as error:
        output.complain(str(error))
        return exit_code(error)
    table = Table("operation", "D1", "AI", "Vectorize", "allowed", box=None)
    over = False
    headers = {"authorization": f"Bearer {stack.internal_secret}"}
    with counting(cloudflare), httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        client.get(
            "/v1/stats"
        ).raise_for_status()  # boots the Worker and fills its cache of the model's state
        for operation in operations(secrets.token_hex(4)):
            seen = count(cloudflare, client, operation)
            over |= any(used > allowed for used, allowed in zip(seen, operation.allowed, strict=True))
            table.add_row(operation.name, *map(str, seen), " / ".join(map(str, operation.allowed)))
    output.out.print(table)
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
