"""Benchmarks of the trie of identifiers and of decoding over it."""
