"""Shortlists: the few phrases of a large head that are scored for a query."""
