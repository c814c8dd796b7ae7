"""GLOW: a dual encoder whose attention is weighted by BM25."""
