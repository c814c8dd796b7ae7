"""Readers of formats that offices, mail programs, notebooks and programmers write."""
