"""A reader: where in a passage a question is answered, and whether the passage is about it."""
