"""Which files of a folder are read: ignore rules, limits, links that lead in a circle."""
