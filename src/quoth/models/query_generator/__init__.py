"""Query generators: models of p(query | passages)."""
