"""From words to what is counted and generated."""
