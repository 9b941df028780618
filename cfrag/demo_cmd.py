"""`cfrag demo`: from nothing to answers, on this machine."""

import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cfrag import local_process, output
from cfrag.client import Client
from cfrag.data_cmds import show_hits, show_report
from cfrag.errors import DemoFailed
from cfrag.ingest import ingest
from cfrag.local_process import Running
from cfrag.local_stack import LocalStack
from cfrag.plugins import ensure_cloudflare_plugin
from cfrag.pulumi_env import ROOT, pulumi_env
from cfrag.sources import read
from infra.bundle import store

# Vectorize shows a write after a while; on this machine about a second.
VISIBLE_SECONDS = 30.0


@dataclass(frozen=True)
class Example:
    """A search with the document that must come first, by the beginning of its id."""

    query: str
    first: str
    options: Sequence[str] = ()
    request: dict[str, Any] = field(default_factory=dict)


EXAMPLES = (
    Example("remove whitespace from the beginning and end of a string", "string-methods/str-strip"),
    Example(
        "loop over the items of a list",
        "for/the-for-statement",
        ("--tag", "grammar"),
        {"tags": ["grammar"]},
    ),
    Example(
        "what does the lambda keyword do",
        "lambda/lambdas",
        ("--where", "chapter=expressions", "--where", "words<100"),
        {"filter": {"chapter": {"$eq": "expressions"}, "words": {"$lt": 100}}},
    ),
)


def demo_command() -> None:
    """Deploy to a Cloudflare on this machine, ingest Python's own reference, and search it."""
    started = time.monotonic()
    home = store.home()
    home.mkdir(parents=True, exist_ok=True)
    output.say("starting Cloudflare on this machine ...")
    cloudflare = local_process.start(home)
    stack = LocalStack(home, pulumi_env(home, cloudflare.api))
    deploy(stack, cloudflare)
    url: str = stack.outputs()["url"]
    with Client(url, stack.internal_secret) as client:
        ingest_corpus(client, write_corpus(home))
        for example in EXAMPLES:
            run_example(client, example)
    show_ways_on(url, time.monotonic() - started)


def deploy(stack: LocalStack, cloudflare: Running) -> None:
    """The real CLI's `pulumi up`, after the address and the secrets of this machine have been set."""
    plugin = ensure_cloudflare_plugin(stack.environment)
    stack.create()
    api, url = cloudflare.api, cloudflare.reserve(stack.worker_name)
    stack.configure(api_token=api.token, account_id=api.account_id, url=url)
    output.say(f"deploying with the Pulumi CLI ({plugin} cloudflare plugin) ...")
    stack.up()


def write_corpus(home: Path) -> Path:
    """Runs the producer, as a person would."""
    corpus = home / "demo/python_docs.jsonl"
    corpus.parent.mkdir(exist_ok=True)
    shown = corpus.relative_to(ROOT) if corpus.is_relative_to(ROOT) else corpus
    command = [sys.executable, "-m", "examples.python_docs", str(shown)]
    subprocess.run(command, cwd=ROOT, check=True)
    return corpus


def ingest_corpus(client: Client, corpus: Path) -> None:
    """Raises DemoFailed unless every document was taken."""
    items = list(read(corpus, corpus.parent))
    with output.progress_bar() as bar:
        task = bar.add_task("ingesting", total=len(items))
        report = ingest(client, items, lambda count: bar.advance(task, count))
    show_report(report)
    if report.failures:
        raise DemoFailed("not every document of the corpus was taken")


def run_example(client: Client, example: Example) -> None:
    """Shows a search. Raises DemoFailed where another document stays first for as long as writes may take."""
    output.out.print(
        f"\n$ cfrag search {shlex.join([example.query, *example.options])}",
        markup=False,
        soft_wrap=True,
        style="bold",
    )
    deadline = time.monotonic() + VISIBLE_SECONDS
    while True:
        hits = client.search({"query": example.query, "topK": 3, **example.request})
        found = hits[0]["id"] if hits else "nothing"
        if found.startswith(example.first) or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    show_hits(hits)
    if not found.startswith(example.first):
        raise DemoFailed(f'"{example.query}" found {found} first, not {example.first}')


def show_ways_on(url: str, seconds: float) -> None:
    lines = (
        f"\nDone in {seconds:.0f} s. The Worker runs at {url}",
        f"  dashboard:        {url}/ (its key: CFRAG_KEY of `.venv/bin/cfrag local env`)",
        f"  API, to try out:  {url}/docs",
        f"  OpenAPI:          {url}/openapi.json",
        '  by hand:          eval "$(.venv/bin/cfrag local env)", then .venv/bin/cfrag search "...",',
        "                    .venv/bin/cfrag stats, pulumi preview -s local",
        "  stop:             make stop",
    )
    for line in lines:
        output.out.print(line, markup=False, soft_wrap=True)
