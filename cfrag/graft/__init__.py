"""The retrieval service added to a Python Worker that exists already."""
