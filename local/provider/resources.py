"""What the stand-in has of the official plugin's resources."""

from typing import Any

from infra.provider.base import Resource
from local.provider.data import D1Database, Queue, QueueConsumer
from local.provider.workers import (
    Worker,
    WorkersCustomDomain,
    WorkersDeployment,
    WorkersRoute,
    WorkersScriptSubdomain,
)

RESOURCES: tuple[Resource[Any], ...] = (
    D1Database(),
    Queue(),
    QueueConsumer(),
    Worker(),
    WorkersDeployment(),
    WorkersScriptSubdomain(),
    WorkersCustomDomain(),
    WorkersRoute(),
)
