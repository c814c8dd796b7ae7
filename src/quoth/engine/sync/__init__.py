"""Keep a collection in step with folders: what is new, changed or gone, and what follows."""
