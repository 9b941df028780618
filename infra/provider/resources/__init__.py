"""The resources of the `cfrag` provider, in the order in which a stack creates them."""

from typing import Any

from infra.provider.base import Resource
from infra.provider.resources.d1_migrations import D1Migrations
from infra.provider.resources.embedding_space import EmbeddingSpace
from infra.provider.resources.metadata_index import VectorizeMetadataIndex
from infra.provider.resources.space_activation import SpaceActivation
from infra.provider.resources.vectorize_index import VectorizeIndex
from infra.provider.resources.worker_version import WorkerVersion

RESOURCES: tuple[Resource[Any], ...] = (
    EmbeddingSpace(),
    VectorizeIndex(),
    VectorizeMetadataIndex(),
    D1Migrations(),
    WorkerVersion(),
    SpaceActivation(),
)
