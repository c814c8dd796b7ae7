"""Signals made from the corpus alone."""
