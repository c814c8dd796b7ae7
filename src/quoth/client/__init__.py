"""A served collection, from Python."""
