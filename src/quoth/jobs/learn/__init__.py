"""Learn to search a collection: `quoth learn`."""
