"""Recipes: data, loss and settings that train one model each."""
