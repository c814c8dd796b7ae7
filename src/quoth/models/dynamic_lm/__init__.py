"""A language model with a dynamic vocabulary: subwords, and phrases offered for one question."""
