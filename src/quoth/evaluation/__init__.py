"""Judges only: retrieval measures, significance, latency."""
