"""Collections as retrievers of other libraries, each installed by an extra of its own."""
