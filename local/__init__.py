"""Cloudflare on this machine: its REST API, its bindings and its runtime, without an account."""
