"""Stands where workerd keeps its hooks for the Workers runtime SDK."""
