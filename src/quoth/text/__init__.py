"""From files to words."""
