"""Learning without labels, measured on every collection."""
