"""Vectorize on this machine: exact search, eventually consistent writes, the platform's limits."""

from local.vectorize.rest import routes
from local.vectorize.service import VectorizeService

__all__ = ["VectorizeService", "routes"]
