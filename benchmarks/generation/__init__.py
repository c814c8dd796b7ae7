"""Generation with a dynamic vocabulary: training, continuations, and their measures."""
