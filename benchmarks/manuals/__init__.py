"""Questions of a newcomer to the manuals of everyday programs."""
