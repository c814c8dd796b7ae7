"""One opened collection: add, search, ask, verify."""
