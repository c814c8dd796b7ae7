"""Threads that search for the server, each with an engine of its own."""
