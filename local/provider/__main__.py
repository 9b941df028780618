"""Entry point of the plugin `pulumi-resource-cloudflare`."""

from infra.provider.plugin import Plugin
from infra.provider.serving import serve
from local.provider.resources import RESOURCES

# That of the pulumi_cloudflare SDK in use: an older plugin drops arguments that it doesn't know.
VERSION = "6.23.1"

serve(Plugin("cloudflare", VERSION, RESOURCES), VERSION)
