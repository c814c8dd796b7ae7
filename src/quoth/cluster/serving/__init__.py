"""Shards served from a Ray cluster."""
