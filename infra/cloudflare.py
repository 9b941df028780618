"""What a stack uses of `pulumi_cloudflare`; most of the time that its import takes is garbage collection."""

import gc
import warnings

gc.disable()
with warnings.catch_warnings():
    # It warns of its own deprecated resources, none of which is used here.
    warnings.simplefilter("ignore", DeprecationWarning)
    from pulumi_cloudflare import (
        D1Database,
        Provider,
        Queue,
        QueueConsumer,
        Worker,
        WorkersCustomDomain,
        WorkersDeployment,
    )
    from pulumi_cloudflare import QueueConsumerSettingsArgsDict as ConsumerSettings
gc.freeze()
gc.enable()

__all__ = [
    "ConsumerSettings",
    "D1Database",
    "Provider",
    "Queue",
    "QueueConsumer",
    "Worker",
    "WorkersCustomDomain",
    "WorkersDeployment",
]
