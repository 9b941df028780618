"""`cfrag render`: the Worker of a stack as files, from its config alone."""

from pathlib import Path
from typing import Annotated

import typer

from cfrag import output
from infra.bundle import render_project, shown_size


def render_command(
    stack: Annotated[str, typer.Option("--stack", "-s", help="Stack whose Pulumi.<stack>.yaml is rendered.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")] = False,
) -> None:
    """Write the Worker as `pulumi up` would deploy it; needs no network, no account and no Pulumi state."""
    bundle = render_project(stack, out)
    if as_json:
        own = {"out": str(out), "digest": bundle.digest, "modules": len(bundle.modules)}
        output.print_json(own | {"gzipBytes": bundle.gzip_bytes})
        return
    output.out.print(
        f"{out}: {output.plural(len(bundle.modules), 'module')}, {shown_size(bundle)}", markup=False
    )
