"""The four papers: their tables and figures, and what repeats each here."""
