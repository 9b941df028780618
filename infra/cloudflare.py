"""`pulumi_cloudflare`, imported in less than half the time: most of it is garbage collection."""

import gc
import warnings

gc.disable()
with warnings.catch_warnings():
    # It warns of its own deprecated resources, none of which is used here.
    warnings.simplefilter("ignore", DeprecationWarning)
    import pulumi_cloudflare as resources
gc.freeze()
gc.enable()

__all__ = ["resources"]
