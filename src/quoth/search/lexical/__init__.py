"""BM25 over fields."""
