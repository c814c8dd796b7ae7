"""Encoding and learning that somebody started on the page, each in a process of its own."""
