"""Lexical search: ranking quality, and speed beside bm25s and plain tantivy."""
