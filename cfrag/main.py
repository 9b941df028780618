"""The entry point: puts the commands together, and turns errors into one line and an exit code."""

import os
import sys

import typer

from cfrag import (
    data_cmds,
    demo_cmd,
    dims_cmd,
    dlq_cmd,
    doctor_cmd,
    export_cmd,
    graft_cmd,
    import_cmd,
    keys_cmd,
    local_cmd,
    output,
    preview_cmd,
    render_cmd,
    rollback_cmd,
    smoke_cmd,
    tenants_cmd,
)
from cfrag.errors import Exit, exit_code
from infra.errors import CfragError

EXIT_CODES = (
    "Exit codes: 0 done; 1 documents, messages or checks failed, or the demo came out wrong; 2 the command "
    "line, a file or the config is at fault; 3 the service or a program that is needed doesn't answer; 4 the "
    "service refused."
)

app = typer.Typer(
    name="cfrag",
    help="Retrieval on Cloudflare, from one typed config.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("demo")(demo_cmd.demo_command)
app.command("render")(render_cmd.render_command)
app.command("graft")(graft_cmd.graft_command)
app.add_typer(local_cmd.app, name="local")
app.add_typer(keys_cmd.app, name="keys")
app.add_typer(dlq_cmd.app, name="dlq")
app.add_typer(dims_cmd.app, name="dims")
app.add_typer(tenants_cmd.app, name="tenants")
app.command("ingest")(data_cmds.ingest_command)
app.command("search")(data_cmds.search_command)
app.command("stats")(data_cmds.stats_command)
app.command("export")(export_cmd.export_command)
app.command("import")(import_cmd.import_command)
app.command("doctor")(doctor_cmd.doctor_command)
app.command("preview")(preview_cmd.preview_command)
app.command("rollback")(rollback_cmd.rollback_command)
app.command("smoke")(smoke_cmd.smoke_command)


def run() -> None:
    """Runs the command line and ends the process with its exit code."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: list[str]) -> int:
    """The exit code of a command. No traceback for what a person or a service did wrong."""
    try:
        app(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except CfragError as error:
        output.complain(str(error))
        return exit_code(error)
    except (
        PermissionError,
        FileNotFoundError,
        FileExistsError,
        IsADirectoryError,
        NotADirectoryError,
    ) as error:
        output.complain(f"{error.filename}: {error.strerror}")
        return Exit.BAD_INPUT
    except BrokenPipeError:
        # The reader has seen enough (`| head`); Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
