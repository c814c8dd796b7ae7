"""Language models with a dynamic vocabulary: their sets and losses."""
