"""Weights of the networks that Quoth trained itself; one folder each, no code."""
