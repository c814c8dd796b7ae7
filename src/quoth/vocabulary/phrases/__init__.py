"""The phrase vocabulary: mined, counted, pruned, and texts segmented by it."""
