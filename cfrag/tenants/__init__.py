"""Tenants: one stack each, stamped from one file."""
