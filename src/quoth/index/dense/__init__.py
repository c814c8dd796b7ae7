"""Vectors by row, searched exactly or by a graph."""
