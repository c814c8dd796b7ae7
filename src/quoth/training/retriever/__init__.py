"""Dual encoders: their sets, negatives, losses and curriculum."""
