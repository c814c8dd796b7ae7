"""Encoding: passages per second and ranking quality beside sentence-transformers."""
