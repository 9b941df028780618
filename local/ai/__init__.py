"""Workers AI on this machine: embeddings without a network."""

from local.ai.rest import routes
from local.ai.service import EmbeddingService

__all__ = ["EmbeddingService", "routes"]
