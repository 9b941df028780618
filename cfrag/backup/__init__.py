"""Backups: everything that a service holds in one file, and back into the same or another service."""
