"""A stand-in for the pulumi-cloudflare plugin, where the official one can't be installed."""
