"""Retrieval by generated identifiers: vocabularies, decoding and losses compared."""
