"""Readers: their sets, batches and losses."""
