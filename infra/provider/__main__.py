"""Entry point of the plugin `pulumi-resource-cfrag`."""

from infra.provider.plugin import Plugin
from infra.provider.resources import RESOURCES
from infra.provider.serving import serve

VERSION = "0.1.0"

serve(Plugin("cfrag", VERSION, RESOURCES), VERSION)
