"""One loop, losses, self-supervision, recipes."""
