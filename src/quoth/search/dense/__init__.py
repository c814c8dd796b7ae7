"""Search by vectors of passages."""
