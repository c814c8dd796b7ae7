"""Train a dual encoder on labelled pairs: `quoth train glow`."""
