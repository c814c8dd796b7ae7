"""The report of a learning, as values, in words and as a page."""
