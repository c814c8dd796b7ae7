"""Serving: throughput and latency under load, overload and recovery, and reading while writing."""
