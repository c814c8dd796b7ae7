"""Queries to runs, one searcher per way of searching."""
