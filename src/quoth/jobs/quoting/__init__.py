"""Train a language model to quote: `quoth train dynamic-lm`."""
