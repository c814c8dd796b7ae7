"""The reader: what it is trained on, its training on a GPU, and how well it reads and reranks."""
