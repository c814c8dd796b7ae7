"""What may improve the order of reranked hits at little cost: a table of signs, and its study."""
