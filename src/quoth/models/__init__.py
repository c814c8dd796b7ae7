"""Tensors; one folder per network."""
