"""Fusing BM25 and vectors with weights found without labels, on every collection."""
