"""The demo corpus: Python's own language reference, which comes with every Python, cut into documents."""
