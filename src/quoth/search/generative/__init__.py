"""Search by generated identifiers."""
