"""The `cfrag` Pulumi provider: what Cloudflare has and pulumi-cloudflare lacks."""
