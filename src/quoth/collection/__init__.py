"""The truth on disk."""
