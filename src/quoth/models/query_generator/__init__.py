"""The query generator: an encoder–decoder that models p(query | passages)."""
