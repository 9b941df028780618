"""Replacing the embedding space from the command line: what it costs, how far it is, and its steps."""
