"""`pulumi_cloudflare`, imported in less than half the time: most of it is garbage collection."""

import gc

gc.disable()
import pulumi_cloudflare as resources  # noqa: E402

gc.freeze()
gc.enable()

__all__ = ["resources"]
