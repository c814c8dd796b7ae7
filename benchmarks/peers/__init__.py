"""Search beside what users would take instead, each with what a person sees of a hit."""
