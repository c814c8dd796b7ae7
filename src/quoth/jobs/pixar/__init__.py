"""Build generative search: `quoth train pixar`."""
