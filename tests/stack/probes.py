"""Searches with known answers, all the time, on several Workers at once."""

import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from tests.stack.checkout import SECRET

EVERY_SECONDS = 0.1


@dataclass
class Probe:
    """Asks one Worker. What it answers counts; that it can't be reached, because it was killed, doesn't."""

    url: str
    answers: Mapping[str, str]
    asked: int = 0
    unreachable: int = 0
    wrong: list[str] = field(default_factory=list)

    def run(self, stop: threading.Event) -> None:
        headers = {"Authorization": f"Bearer {SECRET}"}
        with httpx.Client(base_url=self.url, headers=headers, timeout=60, trust_env=False) as client:
            for query, wanted in itertools.cycle(self.answers.items()):
                started = time.monotonic()
                self._ask(client, query, wanted)
                if stop.wait(max(0.0, EVERY_SECONDS - (time.monotonic() - started))):
                    return

    def _ask(self, client: httpx.Client, query: str, wanted: str) -> None:
        try:
            answer = client.post("/v1/search", json={"query": query, "topK": 3})
        except httpx.TransportError:
            self.unreachable += 1
            return
        self.asked += 1
        found = [hit["id"] for hit in answer.json()["hits"]] if answer.status_code == 200 else []
        if found[:1] != [wanted]:
            self.wrong.append(f"{query}: {found or answer.text}")


@contextmanager
def probing(answers: Mapping[str, str], *urls: str) -> Iterator[list[Probe]]:
    """Probes of these Workers, from now until the block ends."""
    stop = threading.Event()
    probes = [Probe(url, answers) for url in urls]
    threads = [threading.Thread(target=probe.run, args=(stop,)) for probe in probes]
    for thread in threads:
        thread.start()
    try:
        yield probes
    finally:
        stop.set()
        for thread in threads:
            thread.join()
