"""GLOW against the plain dual encoder: weighting modes and ablations on the same seeds."""
