"""`cfrag local …`: the Cloudflare on this machine."""

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.table import Table

from cfrag import local_process, output
from cfrag.errors import Exit, InputError
from cfrag.local_process import Running
from cfrag.pulumi_env import pulumi_variables, unwanted_variables
from infra.bundle import store
from local.state import State

app = typer.Typer(help="Cloudflare on this machine.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value.")]
SECRET = "INTERNAL_API_SECRET"


@app.command("start")
def start_command(
    port: Annotated[
        int | None,
        typer.Option(envvar="CFRAG_LOCAL_PORT", help="Of the REST API; by default the last one."),
    ] = None,
    vectorize_delay: Annotated[
        float | None, typer.Option(min=0, help="Seconds until a Vectorize write can be seen (1 by default).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Start it in the background. Where it runs already, that is fine."""
    running = local_process.start(store.home(), port)
    if port and urlsplit(running.url).port != port:
        raise InputError(f"it runs at {running.url}, not at port {port}: first run `cfrag local stop`")
    if vectorize_delay is not None:
        running.call("PUT", "/__local/settings", {"vectorizeDelaySeconds": vectorize_delay})
    if as_json:
        output.print_json({"url": running.url, "pid": running.pid, "accountId": running.account_id})
    else:
        output.say(f"Cloudflare on this machine: {running.url} (process {running.pid})")


@app.command("stop")
def stop_command() -> None:
    """Stop it and its Workers; what it holds is kept."""
    stopped = local_process.stop(store.home())
    output.say("stopped" if stopped else "no local Cloudflare was running")


@app.command("status")
def status_command(as_json: Json = False) -> None:
    """Show what runs and what it holds; exit 3 where nothing runs."""
    running = local_process.find(store.home())
    if running is None:
        if as_json:
            output.print_json({"running": False})
        else:
            output.say("no local Cloudflare runs; start it with: cfrag local start")
        raise typer.Exit(Exit.UNREACHABLE)
    status = {
        "running": True,
        "url": running.url,
        "pid": running.pid,
        **running.call("GET", "/__local/status"),
    }
    if as_json:
        output.print_json(status)
    else:
        _show(status)


def _show(status: dict[str, Any]) -> None:
    output.out.print(f"{status['url']}  process {status['pid']}", markup=False)
    _table("Workers", status["workers"], ("name", "url", "state", "problem"))
    _table("Databases", status["databases"], ("name", "id"))
    _table("Indexes", status["indexes"], ("name", "dimensions", "metric", "vectors"))
    _table("Queues", status["queues"], ("name", "backlog", "consumer"))
    _table("Processes", status["processes"], ("pid", "workers", "state", "restarts"))


def _table(title: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    if not rows:
        return
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    output.out.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


@app.command("logs")
def logs_command(
    worker: Annotated[str | None, typer.Argument(help="Name of the Worker; all of them by default.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 50,
) -> None:
    """Show what Workers have logged."""
    folder = store.home() / "local/logs"
    known = sorted(path.stem for path in folder.glob("*.log"))
    if worker is not None and worker not in known:
        raise InputError(f"no Worker {worker} has logged anything; there are: {', '.join(known) or 'none'}")
    paths = [folder / f"{name}.log" for name in ([worker] if worker else known)]
    for path in paths:
        for line in path.read_text(errors="replace").splitlines()[-lines:] if lines else []:
            _print_line(path, line, named=len(paths) > 1)
    if follow:
        for path, line in _new_lines(paths):
            _print_line(path, line, named=len(paths) > 1)


def _print_line(path: Path, line: str, *, named: bool) -> None:
    output.out.print(f"{path.stem}: {line}" if named else line, markup=False, soft_wrap=True)


def _new_lines(paths: list[Path]) -> Iterator[tuple[Path, str]]:
    """Lines as they are written; a file that was put away starts from its beginning."""
    seen = {path: path.stat().st_size for path in paths}
    while True:
        for path in paths:
            size = path.stat().st_size if path.exists() else 0
            start = seen[path] if size >= seen[path] else 0
            if size == start:
                continue
            with path.open("rb") as file:
                file.seek(start)
                text = file.read(size - start)
            whole = text[: text.rfind(b"\n") + 1]  # a line still being written waits
            seen[path] = start + len(whole)
            for line in whole.decode(errors="replace").splitlines():
                yield path, line
        time.sleep(0.2)


@app.command("env")
def env_command(
    worker: Annotated[
        str | None,
        typer.Option("--worker", help="Whose CFRAG_URL and CFRAG_KEY; else the only one's."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print shell exports for work by hand: eval "$(.venv/bin/cfrag local env)"."""
    home = store.home()
    running = local_process.need(home)
    variables = pulumi_variables(home, running.api) | _worker_variables(running, worker)
    if as_json:
        output.print_json(variables)
        return
    print(f"unset {' '.join(unwanted_variables())}")
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")


def _worker_variables(running: Running, wanted: str | None) -> dict[str, str]:
    """CFRAG_URL and CFRAG_KEY of one Worker; nothing where it isn't clear which, and nobody asked."""
    deployed = [item for item in running.call("GET", "/__local/status")["workers"] if item["versionId"]]
    names = [item["name"] for item in deployed]
    if wanted is not None and wanted not in names:
        raise InputError(f"no Worker {wanted} is deployed; there are: {', '.join(names) or 'none'}")
    chosen = [item for item in deployed if wanted in (None, item["name"])]
    if len(chosen) != 1:
        if chosen:
            output.say(f"several Workers ({', '.join(names)}): choose CFRAG_URL with --worker")
        return {}
    key = _secret(running.home, chosen[0]["name"])
    return {"CFRAG_URL": chosen[0]["url"]} | ({"CFRAG_KEY": key} if key else {})


def _secret(home: Path, name: str) -> str | None:
    """The internal secret of a Worker, which the API tells nobody but this machine's state holds."""
    state = State(home / "local/control.db")
    try:
        worker = state.worker(name)
        active = state.active(worker) if worker else None
        version = state.version(worker, active.running) if worker and active else None
        bindings = version.bindings if version else []
        return next(
            (str(b["text"]) for b in bindings if b["type"] == "secret_text" and b["name"] == SECRET), None
        )
    finally:
        state.close()
