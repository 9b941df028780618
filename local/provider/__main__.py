"""Entry point of the plugin `pulumi-resource-cloudflare`."""

from infra.provider.plugin import Plugin
from infra.provider.serving import serve
from local.provider.data import D1Database, Queue, QueueConsumer
from local.provider.workers import (
    Worker,
    WorkersCustomDomain,
    WorkersDeployment,
    WorkersRoute,
    WorkersScriptSubdomain,
)

# That of the pulumi_cloudflare SDK in use: an older plugin drops arguments that it doesn't know.
VERSION = "6.23.1"

RESOURCES = (
    D1Database(),
    Queue(),
    QueueConsumer(),
    Worker(),
    WorkersDeployment(),
    WorkersScriptSubdomain(),
    WorkersCustomDomain(),
    WorkersRoute(),
)

serve(Plugin("cloudflare", VERSION, RESOURCES), VERSION)
