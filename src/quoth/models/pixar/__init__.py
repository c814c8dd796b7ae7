"""PIXAR: an encoder that names phrases of identifiers, all slots in one pass."""
