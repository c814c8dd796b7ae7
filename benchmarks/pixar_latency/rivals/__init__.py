"""Rivals of PIXAR's shortlist, as close as what is known of them allows."""
