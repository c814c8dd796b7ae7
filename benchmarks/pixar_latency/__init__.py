"""How long a query takes with a head of millions of phrases, method by method."""
