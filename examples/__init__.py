"""Producers: programs that turn some source into documents for the service."""
