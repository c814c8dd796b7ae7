"""Train one PIXAR across collections, and search collections with it that it never saw."""
