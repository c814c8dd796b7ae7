"""A collection over HTTP."""
