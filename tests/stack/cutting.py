"""Ends a command as soon as it has printed something."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

INTERRUPT_AFTER_SECONDS = 2


def cut_short(
    command: Sequence[str],
    words: str,
    *,
    folder: Path,
    environment: Mapping[str, str],
    number: signal.Signals = signal.SIGKILL,
) -> str:
    """Start a command, signal it and all that it has started when `words` are printed; what was printed.

    An interrupt comes some time later, as a person's does.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout
    printed = ""
    for line in process.stdout:
        printed += line
        if words in line:
            break
    if number == signal.SIGINT:
        time.sleep(INTERRUPT_AFTER_SECONDS)
    os.killpg(process.pid, number)
    # Its end of the pipe closes with the last of the group that writes to it.
    printed += process.stdout.read()
    process.stdout.close()
    process.wait(30)
    assert words in printed, printed
    return printed
