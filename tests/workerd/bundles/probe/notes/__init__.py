"""A package of the Worker's own."""

ORIGIN = "own"
