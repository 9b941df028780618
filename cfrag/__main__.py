"""`python -m cfrag` is the same as the console script."""

from cfrag.main import run

run()
