"""PIXAR: losses and steps over large vocabularies of phrases."""
