"""Hours of mixed reading and writing, and whether anything grows."""
